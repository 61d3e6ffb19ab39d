/*
 * Row 10: exceptions, thrown while samples are due: through C frames, through qsort, rethrown,
 * nested in a destructor, carried to another thread, and in a loop.
 */
#include "torture.h"

#include <exception>
#include <stdexcept>
#include <string>
#include <thread>

static int destroyed;

struct Guard {
    ~Guard()
    {
        destroyed++;
        spin(200);
    }
};

struct Nested {
    ~Nested()
    {
        try {
            throw 1;
        } catch (int) {
            destroyed += 10;
        }
    }
};

static NOINLINE void thrower(int depth)
{
    Guard guard;
    spin(100);
    if (depth == 0)
        throw std::runtime_error("leaf");
    thrower(depth - 1);
    spin(1);
}

static NOINLINE void rethrower(int depth)
{
    try {
        thrower(depth);
    } catch (const std::exception &) {
        spin(1000);
        throw;
    }
}

static int compare(const void *a, const void *b)
{
    if (*(const int *)a == 500 || *(const int *)b == 500)
        throw std::string("in qsort");
    return *(const int *)a - *(const int *)b;
}

static NOINLINE void through_c()
{
    Guard guard;
    int values[1000];
    for (int i = 0; i < 1000; i++)
        values[i] = i * 7 % 1000;
    qsort(values, 1000, sizeof values[0], compare);
}

static NOINLINE void many_rounds()
{
    int caught = 0;
    for (int i = 0; i < 8000; i++) {
        try {
            rethrower(i % 30);
        } catch (const std::runtime_error &error) {
            caught += error.what()[0] == 'l';
        }
    }
    printf("caught %d\n", caught);
}

int main()
{
    many_rounds();
    printf("destroyed %d\n", destroyed);
    for (int i = 0; i < 50; i++) {
        try {
            through_c();
        } catch (const std::string &text) {
            if (i == 0)
                printf("%s\n", text.c_str());
        }
    }
    destroyed = 0;
    try {
        Nested nested;
        thrower(3);
    } catch (...) {
        printf("nested %d\n", destroyed);
    }
    int carried = 0;
    for (int i = 0; i < 100; i++) {
        std::exception_ptr pointer;
        std::thread([&] {
            try {
                rethrower(5);
            } catch (...) {
                pointer = std::current_exception();
            }
        }).join();
        try {
            std::rethrow_exception(pointer);
        } catch (const std::exception &) {
            carried++;
        }
    }
    printf("carried %d\n", carried);
    return torture_end();
}
