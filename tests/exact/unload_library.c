/* Calls a function of the program through the PLT, which the linker binds at that time. */
long of_program(long n);
long library_work(long n);

long library_work(long n)
{
    return of_program(n) + 1;
}
