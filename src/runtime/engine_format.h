/*
 * The engines: which there are, and what an arena holds for the one that is at work.
 *
 * An engine is a row here, a `struct engine` in the runtime (runtime/engine.h) and a
 * `struct record_engine` in the supervisor (record/engine.h), both of which are found by its name:
 * engine_NAME and record_NAME. All else knows engines by these structures alone.
 *
 * What an engine keeps in an arena besides its own memory there is a few words of the arena, and of
 * each thread of it. Its own header says what they are (exact/exact_format.h).
 */
#ifndef ENGINE_FORMAT_H
#define ENGINE_FORMAT_H

#define ENGINE_LIST(ROW)                                                                           \
    ROW(sample)                                                                                    \
    ROW(exact)                                                                                     \
    ROW(infer)                                                                                     \
    ROW(encode)                                                                                    \
    ROW(paths)

#define ENGINE_NUMBER(name) ENGINE_##name,
enum engine_number { ENGINE_LIST(ENGINE_NUMBER) ENGINE_COUNT };

/* In 64-bit words: its options, what it says of the process, and of a thread. */
enum { ENGINE_SETTINGS = 8, ENGINE_PROCESS = 8, ENGINE_THREAD = 16 };

#endif
