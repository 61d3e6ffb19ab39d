/* How much of memory the processor maps at once: on x86-64 the same on every machine. */
#ifndef BASE_PAGE_H
#define BASE_PAGE_H

enum { PAGE_BYTES = 4096 };

#endif
