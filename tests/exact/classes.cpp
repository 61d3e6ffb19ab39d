// Calls of every kind that C++ adds; what it does is the same in every run.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#define OUT __attribute__((noinline))

static volatile int sink;

OUT static int leaf(int x)
{
    sink += x;
    return x + 1;
}

struct Shape {
    virtual ~Shape()
    {
        leaf(1);
    }
    virtual int area(int scale) const = 0;
    virtual int name() const
    {
        return leaf(7);
    }
};
struct Square : Shape {
    int side;
    explicit Square(int s) : side(s)
    {
    }
    int area(int scale) const override
    {
        return leaf(side * side * scale);
    }
};
struct Other {
    virtual ~Other()
    {
    }
    virtual int other()
    {
        return leaf(2);
    }
};
struct Circle : Other, Shape {
    int area(int scale) const override
    {
        return leaf(3) + leaf(scale);
    }
    int name() const override
    {
        return Shape::name() + 1;
    }
    int other() override
    {
        return leaf(9);
    }
};

OUT static int sum_of(const std::vector<std::unique_ptr<Shape>> &shapes)
{
    int sum = 0;
    for (const auto &s : shapes)
        sum += s->area(2) + s->name();
    return sum;
}

struct Guard {
    int n;
    OUT ~Guard()
    {
        leaf(n);
    }
};

OUT static int thrower(int n)
{
    Guard guard{n};
    if (n == 0)
        throw std::runtime_error("bottom");
    if (n % 5 == 3) {
        try {
            return thrower(n - 1);
        } catch (const std::runtime_error &) {
            leaf(n);
            throw;
        }
    }
    return thrower(n - 1) + 1;
}

OUT static int catcher(int n)
{
    try {
        return thrower(n);
    } catch (const std::exception &e) {
        return leaf(static_cast<int>(e.what()[0])) + leaf(n);
    }
}

OUT static int apply(const std::function<int(int)> &f, int x)
{
    return f(x);
}

template <class T> OUT static T largest(std::vector<T> v)
{
    std::sort(v.begin(), v.end(), [](const T &a, const T &b) { return leaf(1) && a < b; });
    return v.back();
}

static struct Early {
    Early()
    {
        leaf(100);
    }
    ~Early()
    {
        leaf(200);
    }
} early;

int main()
{
    int sum = 0;
    {
        std::vector<std::unique_ptr<Shape>> shapes;
        for (int i = 0; i < 20; i++)
            if (i % 3)
                shapes.emplace_back(new Square(i));
            else
                shapes.emplace_back(new Circle);
        for (int i = 0; i < 10; i++)
            sum += sum_of(shapes);
    }
    for (int i = 0; i < 12; i++)
        sum += catcher(i);
    for (int i = 0; i < 30; i++)
        sum += apply([i](int x) { return leaf(x + i); }, i) + apply(leaf, i);
    sum += largest(std::vector<int>{5, 3, 9, 1, 7, 2, 8});
    sum += static_cast<int>(largest(std::vector<double>{5, 3, 9, 1, 7, 2, 8}));
    std::map<std::string, int> words;
    for (int i = 0; i < 50; i++)
        words["word" + std::to_string(i % 7)] += leaf(i);
    for (const auto &w : words)
        sum += w.second;
    std::printf("%d %d\n", sum, static_cast<int>(sink));
}
