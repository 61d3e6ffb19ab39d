/*
 * A small program to look at: a recursive-descent calculator. Deep call chains, a rarely used error
 * path that the compiler moves out of the way, and no symbols once it is stripped.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

static const char *at;

static __attribute__((cold, noinline)) void complain(const char *expected)
{
    fprintf(stderr, "expected %s at '%s'\n", expected, at);
    exit(1);
}

static double expression(void);

static __attribute__((noinline)) double number(void)
{
    char *end;
    double value = strtod(at, &end);
    if (end == at)
        complain("a number");
    at = end;
    return value;
}

static __attribute__((noinline)) double factor(void)
{
    if (*at != '(')
        return number();
    at++;
    double value = expression();
    if (*at != ')')
        complain("')'");
    at++;
    return value;
}

static __attribute__((noinline)) double term(void)
{
    double value = factor();
    while (*at == '*' || *at == '/') {
        char sign = *at++;
        double right = factor();
        value = sign == '*' ? value * right : value / right;
    }
    return value;
}

static __attribute__((noinline)) double expression(void)
{
    double value = term();
    while (*at == '+' || *at == '-') {
        char sign = *at++;
        double right = term();
        value = sign == '+' ? value + right : value - right;
    }
    return value;
}

int main(int argc, char **argv)
{
    const char *text = argc > 1 ? argv[1] : "((1+2)*(3+4)-(5*(6+7)))/((8+9)*10)";
    double sum = 0;
    for (int i = 0; i < 1000000; i++) {
        at = text;
        sum += expression();
        if (*at && !isspace((unsigned char)*at))
            complain("the end");
    }
    printf("%g\n", sum);
    return 0;
}
