/* What the assembly and the C code of signal handlers have in common. */
#ifndef ARCH_SAMPLE_LAYOUT_H
#define ARCH_SAMPLE_LAYOUT_H

#define SAMPLE_SIGNAL_NUMBER 26
#define SAMPLE_ROOM          4000 /* bytes of stack for the handler; less than a page */
#define THREAD_STACK_START   8    /* in struct thread */
#define THREAD_STACK_END     16

/* A stack of ours for signals (own_stack.h). No program has one of just that size. */
#define OWN_STACK_BYTES    65312
#define OWN_STACK_MAGIC    0x6b63617473746c61 /* in struct own_stack, which lies above it */

#define CONTEXT_STACK      16 /* in the kernel's ucontext: the alternate stack, */
#define CONTEXT_STACK_SIZE 32 /* and its bytes */

#define SIG_SETMASK_NUMBER 2

/* In struct forwarded (masks.h). */
#define FORWARDED_DISTANCE 0
#define FORWARDED_HANDLER  8
#define FORWARDED_MASK     16
#define FORWARDED_BYTES    24

#define HANDLER_STUBS      128 /* for the program's handlers with SA_ONSTACK, */
#define FAULT_STUBS        64  /* for those of faults that run on no alternate stack */
#define HANDLER_STUB_BYTES 16

/* SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV (faults.c) */
#define FAULT_SIGNALS 0x9b0

#endif
