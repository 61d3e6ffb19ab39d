/* Bytes as the text of perf script, as fuzz_import.h says. Whatever is no such text is tried as
 * folded stacks and by what it looks like. */
#include "fuzz_import.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_import(data, size, IMPORT_PERF);
    fuzz_import(data, size, IMPORT_FOLDED);
    return fuzz_import(data, size, IMPORT_AUTO);
}
