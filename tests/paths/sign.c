/* Three ways: of 1000 calls with 0 to 999, one is with 0, 499 with more than 500, 500 with others.
 */
int sign(int n);
static volatile int sink;

int sign(int n)
{
    if (n == 0) {
        sink = 1;
        return 0;
    }
    if (n > 500)
        sink = 2;
    return n;
}
