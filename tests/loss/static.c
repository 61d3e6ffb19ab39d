/* A program that the runtime cannot get into. */
int main(void)
{
    return 23;
}
