/* Bytes as pprof, as fuzz_import.h says; seeds are exports, plain and gzipped. */
#include "fuzz_import.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return fuzz_import(data, size, IMPORT_PPROF);
}
