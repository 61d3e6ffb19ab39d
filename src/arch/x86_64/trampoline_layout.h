/* What the assembly and the C code of the trampoline have in common. */
#ifndef ARCH_TRAMPOLINE_LAYOUT_H
#define ARCH_TRAMPOLINE_LAYOUT_H

#define MARK_COUNT       2048 /* a power of two: marks that there can be at a time */
#define MARK_BYTES       64   /* of an entry in the table */
#define MARK_STUB_BYTES  32
#define MARK_PUSHED_REAL 15 /* from this byte of a stub on, the slot holds the real address */
#define MARK_PUSHED_ALL  20 /* and from this one on, the stub's number lies below it */

#endif
