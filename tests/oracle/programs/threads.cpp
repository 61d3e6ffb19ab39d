// Threads that sort, format, throw, call through pointers and wait for each other, for stops at
// random moments: C++ as people write it.
#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

struct Shape {
    virtual ~Shape()
    {
    }
    virtual double area(int depth) const = 0;
};

struct Square : Shape {
    double side;
    explicit Square(double s) : side(s)
    {
    }
    double area(int depth) const override
    {
        return depth > 0 ? area(depth - 1) + 1 : side * side;
    }
};

struct Pair : Shape {
    std::unique_ptr<Shape> a, b;
    Pair(Shape *x, Shape *y) : a(x), b(y)
    {
    }
    double area(int depth) const override
    {
        return a->area(depth) + b->area(depth / 2);
    }
};

static double parse(const std::string &text)
{
    try {
        return std::stod(text);
    } catch (const std::invalid_argument &) {
        return -1;
    }
}

static double work(unsigned seed)
{
    std::vector<double> numbers;
    std::map<std::string, double> named;
    for (int i = 0; i < 300; i++) {
        seed = seed * 1103515245u + 12345u;
        std::ostringstream text;
        text << (seed >> 16) % 1000 << '.' << i;
        named[text.str()] += i;
        numbers.push_back(parse(i % 50 ? text.str() : "none"));
    }
    std::function<bool(double, double)> less = [&](double a, double b) { return a < b; };
    std::sort(numbers.begin(), numbers.end(), less);
    Pair shape(new Square(numbers[3]), new Pair(new Square(2), new Square(3)));
    return numbers[100] + shape.area(20) + double(named.size());
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? std::atoi(argv[1]) : 100;
    std::mutex mutex;
    std::condition_variable changed;
    double total = 0;
    int ended = 0;
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 3; t++)
        threads.emplace_back([&, t] {
            for (int i = 0; i < rounds; i++) {
                double result = work(t * 1000 + unsigned(i));
                std::lock_guard<std::mutex> lock(mutex);
                total += result;
            }
            std::lock_guard<std::mutex> lock(mutex);
            ended++;
            changed.notify_all();
        });
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [&] { return ended == 3; });
    lock.unlock();
    for (std::thread &thread : threads)
        thread.join();
    std::printf("threads %.3f\n", total);
    return 0;
}
