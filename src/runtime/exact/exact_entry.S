#include "arch/x86_64/slow_entry.inc"

        .section stub_text, "ax", @progbits
        SLOW_ENTRY exact_slow_entry, exact_slow

        .section .note.GNU-stack, "", @progbits
