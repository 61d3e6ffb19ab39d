// Code with much inlining, for what the lookup of names is compared on: templates, lambdas, nested
// inlined calls, exceptions, cold paths.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

namespace
{

template <typename T> inline T clamp_to(T value, T low, T high)
{
    return value < low ? low : value > high ? high : value;
}

struct Shape {
    virtual ~Shape() = default;
    virtual double area() const = 0;
};

struct Circle : Shape {
    explicit Circle(double r) : radius(r)
    {
    }
    double area() const override
    {
        return 3.14159 * radius * radius;
    }
    double radius;
};

struct Box : Shape {
    Box(double w, double h) : width(clamp_to(w, 0.0, 100.0)), height(clamp_to(h, 0.0, 100.0))
    {
    }
    double area() const override
    {
        return width * height;
    }
    double width, height;
};

inline unsigned mix(unsigned x)
{
    x ^= x >> 15;
    x *= 0x85ebca6bu;
    return x ^ x >> 13;
}

inline unsigned mix_twice(unsigned x)
{
    return mix(mix(x) + 1);
}

std::vector<std::string> words(unsigned count)
{
    std::vector<std::string> out;
    for (unsigned i = 0; i < count; i++)
        out.push_back("w" + std::to_string(mix_twice(i) % 97));
    std::sort(out.begin(), out.end(), [](const std::string &a, const std::string &b) {
        return a.size() != b.size() ? a.size() < b.size() : a < b;
    });
    return out;
}

} // namespace

static std::map<std::string, int> count_words(const std::vector<std::string> &list)
{
    std::map<std::string, int> counts;
    for (const auto &word : list)
        counts[word]++;
    return counts;
}

double total_area(const std::vector<std::unique_ptr<Shape>> &shapes)
{
    double sum = 0;
    for (const auto &shape : shapes)
        sum += shape->area();
    if (sum < 0)
        throw std::runtime_error("negative area " + std::to_string(sum));
    return sum;
}

int main(int argc, char **argv)
{
    unsigned n = argc > 1 ? (unsigned)std::atoi(argv[1]) : 1000;
    std::unordered_map<std::string, double> memo;
    std::vector<std::unique_ptr<Shape>> shapes;
    for (unsigned i = 0; i < n; i++)
        if (mix(i) & 1)
            shapes.push_back(std::make_unique<Circle>(i % 7));
        else
            shapes.push_back(std::make_unique<Box>(i % 5, i % 3));
    try {
        for (const auto &entry : count_words(words(n)))
            memo[entry.first] += entry.second * total_area(shapes);
    } catch (const std::exception &e) {
        std::fprintf(stderr, "%s\n", e.what());
        return 1;
    }
    double sum = 0;
    for (const auto &entry : memo)
        sum += entry.second;
    std::printf("%.3f\n", sum);
    return 0;
}
