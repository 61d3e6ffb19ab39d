// Exceptions: caught, rethrown, through destructors, through C frames, from handlers, unmatched
// types.
extern "C" {
#include "checksum.h"
}

#include <cstdlib>
#include <exception>
#include <new>

namespace
{

struct guard {
    unsigned value;
    explicit guard(unsigned v) : value(v)
    {
    }
    ~guard()
    {
        check(value);
    }
};

struct base {
    virtual ~base() = default;
    virtual unsigned code() const
    {
        return 1;
    }
};

struct derived : base {
    unsigned number;
    explicit derived(unsigned n) : number(n)
    {
    }
    unsigned code() const override
    {
        return number;
    }
};

NOINLINE unsigned thrower(unsigned n)
{
    guard local(n);
    if (n % 3 == 0)
        throw derived(n);
    if (n % 3 == 1)
        throw n;
    return n * 2;
}

NOINLINE unsigned between(unsigned depth, unsigned n)
{
    guard local(depth);
    return depth ? between(depth - 1, n) + 1 : thrower(n);
}

NOINLINE unsigned rethrow(unsigned n)
{
    try {
        return between(2, n);
    } catch (const base &e) {
        check(e.code());
        throw;
    } catch (const char *) {
        check(99);
    }
    return 0;
}

// A destructor that throws and catches while another exception is on its way.
struct busy {
    ~busy()
    {
        try {
            thrower(4);
        } catch (unsigned n) {
            check(n);
        }
    }
};

NOINLINE unsigned nested(unsigned n)
{
    busy local;
    (void)local;
    return between(1, n);
}

extern "C" int compare(const void *a, const void *b)
{
    int x = *static_cast<const int *>(a), y = *static_cast<const int *>(b);
    if (x == 3 || y == 3)
        throw derived(33);
    return x - y;
}

template <unsigned (*function)(unsigned)> NOINLINE unsigned attempt(unsigned n)
{
    try {
        return function(n);
    } catch (const derived &e) {
        return e.number + 100;
    } catch (...) {
        return 200;
    }
}

unsigned plain(unsigned n)
{
    return between(3, n);
}

} // namespace

int main()
{
    check(attempt<plain>(3));
    check(attempt<plain>(5));
    check(attempt<rethrow>(3));
    check(attempt<nested>(4));
    int numbers[] = {8, 1, 3, 5};
    try {
        qsort(numbers, 4, sizeof *numbers, compare);
    } catch (const base &e) {
        check(e.code());
    }
    std::exception_ptr kept;
    try {
        throw 5;
    } catch (...) {
        kept = std::current_exception();
    }
    try {
        std::rethrow_exception(kept);
    } catch (int n) {
        check(static_cast<unsigned>(n));
    }
    return print_checksum("throw");
}
