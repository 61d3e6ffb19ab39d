/* Numbers to text and back: deep in the library, with large frames and multi-precision assembly. */
#include "checksum.h"

#include <stdlib.h>
#include <string.h>

static void check_text(const char *text)
{
    for (; *text; text++)
        check((unsigned char)*text);
}

int main(void)
{
    char text[400];
    double value = 0.1;
    for (int i = 0; i < 4; i++) {
        snprintf(text, sizeof text, "%.17g %f %e %10.3a", value, value, value, value);
        check_text(text);
        check((uint64_t)(strtod(text, NULL) * 1e6));
        value = value * -1234.5678 + 1e-5;
    }
    snprintf(text, sizeof text, "%.60Lf|%Lg", 1.0L / 3, 1e300L);
    check_text(text);
    snprintf(text, sizeof text, "%1$s %2$*3$d %4$c", "positional", 42, 9, 'x');
    check_text(text);
    int a = 0, b = 0;
    check((unsigned)sscanf("12 0x1f rest", "%d %i", &a, &b));
    check((unsigned)(a * 100 + b));
    return print_checksum("doubles");
}
