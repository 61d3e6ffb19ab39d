#ifndef NOCFI_H
#define NOCFI_H

typedef unsigned (*nocfi_callback)(unsigned);

unsigned nocfi_leaf(unsigned x);
unsigned nocfi_calls(nocfi_callback f, unsigned x);
unsigned nocfi_saves(nocfi_callback f, unsigned a, unsigned b, unsigned c);
unsigned nocfi_array(nocfi_callback f, unsigned x);
unsigned nocfi_early(nocfi_callback f, unsigned x);
unsigned nocfi_loop(nocfi_callback f, unsigned x);
unsigned nocfi_many(nocfi_callback f, unsigned a, unsigned b, unsigned c, unsigned d, unsigned e,
                    unsigned g, unsigned h);
unsigned nocfi_variable(nocfi_callback f, unsigned x);
unsigned nocfi_aligned(nocfi_callback f, unsigned x);
unsigned nocfi_recursion(nocfi_callback f, unsigned depth);

#endif
