/*
 * What gives a program away that was built with a sanitizer: a library that it needs, by the
 * beginning of its name, or a function that it defines. Sanitizers take over memory and signals,
 * and want to be the first library: nothing is preloaded into them. Both sides look for these.
 */
#ifndef ELF_SANITIZERS_H
#define ELF_SANITIZERS_H

/* X(library, function, name) */
#define SANITIZERS(X)                                                                              \
    X("libasan.so", "__asan_init", "AddressSanitizer")                                             \
    X("libtsan.so", "__tsan_init", "ThreadSanitizer")                                              \
    X("liblsan.so", "__lsan_init", "LeakSanitizer")                                                \
    X("libhwasan.so", "__hwasan_init", "HWAddressSanitizer")                                       \
    X("libclang_rt.asan", "__msan_init", "a sanitizer")                                            \
    X("libclang_rt.tsan", "__dfsan_init", "a sanitizer")

#endif
