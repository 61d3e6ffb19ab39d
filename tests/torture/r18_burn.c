/* Row 18: an ordinary program, to be made static, setuid or not executable by the test. */
#include "torture.h"

int main(int argc, char **argv)
{
    burn_ms(200);
    printf("%d arguments\n", argc - 1);
    for (int i = 1; i < argc; i++)
        printf("%s\n", strrchr(argv[i], '/') ? strrchr(argv[i], '/') + 1 : argv[i]);
    return torture_end();
}
