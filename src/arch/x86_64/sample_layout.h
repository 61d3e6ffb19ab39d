/* What the assembly and the C code of the signal handler have in common. */
#ifndef ARCH_SAMPLE_LAYOUT_H
#define ARCH_SAMPLE_LAYOUT_H

#define SAMPLE_SIGNAL_NUMBER 16
#define SAMPLE_ROOM          4000 /* bytes of stack for the handler; less than a page */
#define THREAD_STACK_START   8    /* in struct thread */
#define THREAD_STACK_END     16

#endif
