#include "arch/x86_64/slow_entry.inc"

        .section stub_text, "ax", @progbits
        SLOW_ENTRY encode_slow_entry, encode_slow

        .section .note.GNU-stack, "", @progbits
