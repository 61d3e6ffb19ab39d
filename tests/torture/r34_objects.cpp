/* Row 34: C++ as compilers build it: virtual calls, std::function, templates, exceptions through
 * many frames and in threads, destructors that call. The contexts after each catch are compared,
 * too. */
#include "truth.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

static volatile long sink;

extern "C" NOINLINE long leaf(long n)
{
    TRUTH();
    sink = n;
    return n + 1;
}

struct shape {
    virtual ~shape() = default;
    virtual long area(long n) const = 0;
};

struct circle : shape {
    long area(long n) const override __asm__("circle_area");
};

struct square : shape {
    long area(long n) const override __asm__("square_area");
};

NOINLINE long circle::area(long n) const
{
    TRUTH_AS("circle_area");
    return leaf(n) * 3;
}

NOINLINE long square::area(long n) const
{
    TRUTH_AS("square_area");
    return leaf(n) * leaf(n + 1);
}

extern "C" NOINLINE bool is_less(long a, long b)
{
    TRUTH();
    return leaf(a) < leaf(b);
}

extern "C" NOINLINE void ends(long n)
{
    TRUTH();
    leaf(n);
}

/* Calls when it goes, by a return or by a throw. */
struct guard {
    long n;
    ~guard()
    {
        ends(n);
    }
};

extern "C" NOINLINE long throws(long depth, long kind)
{
    TRUTH();
    guard g{depth};
    if (depth == 0) {
        if (kind % 3 == 0)
            throw std::runtime_error("in the depth");
        if (kind % 3 == 1)
            throw kind;
        return kind;
    }
    return throws(depth - 1, kind) + leaf(depth);
}

extern "C" NOINLINE long catches(long depth, long kind)
{
    TRUTH();
    long sum = 0;
    try {
        sum = throws(depth, kind);
    } catch (const std::runtime_error &e) {
        sum = leaf((long)std::string(e.what()).size());
    } catch (long value) {
        try {
            leaf(value);
            throw;
        } catch (...) {
            sum = leaf(1) + leaf(2);
        }
    }
    return sum + leaf(sum);
}

extern "C" NOINLINE long through_function(long n)
{
    TRUTH();
    std::function<long(long)> f = [n](long x) { return leaf(x + n); };
    std::function<long(long)> g = n & 1 ? f : std::function<long(long)>(leaf);
    return f(1) + g(2);
}

extern "C" NOINLINE long sorts(long n)
{
    TRUTH();
    std::vector<long> v;
    for (long i = 0; i < 12; i++)
        v.push_back((i * 7 + n) % 12);
    std::sort(v.begin(), v.end(), is_less);
    return v[5];
}

extern "C" NOINLINE long shapes(long n)
{
    TRUTH();
    std::vector<std::unique_ptr<shape>> all;
    for (long i = 0; i < 6; i++)
        if ((i + n) % 3)
            all.push_back(std::make_unique<circle>());
        else
            all.push_back(std::make_unique<square>());
    long sum = 0;
    for (const auto &s : all)
        sum += s->area(n);
    return sum;
}

extern "C" NOINLINE long everything(long rounds)
{
    TRUTH();
    long sum = 0;
    for (long i = 0; i < rounds; i++)
        sum += shapes(i) + sorts(i) + through_function(i) + catches(i % 9, i);
    return sum;
}

extern "C" NOINLINE void in_thread(long *sum)
{
    TRUTH();
    *sum = everything(60);
}

int main()
{
    TRUTH();
    long sums[4];
    std::vector<std::thread> threads;
    for (long &sum : sums)
        threads.emplace_back(in_thread, &sum);
    long own = everything(60);
    for (auto &t : threads)
        t.join();
    for (long sum : sums)
        CHECK(sum == own);
    printf("%ld\n", own);
    truth_print();
    return torture_end();
}
