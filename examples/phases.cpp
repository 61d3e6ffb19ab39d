/*
 * Phases that end with a block of C++.
 *
 *     c++ -O2 -g -o phases phases.cpp $(pkg-config --cflags calltrail)
 *     calltrail record ./phases && calltrail report --view phases
 */
#include <calltrail.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <random>
#include <vector>

class Phase
{
  public:
    explicit Phase(const char *name)
    {
        ct_phase(name);
    }
    ~Phase()
    {
        ct_phase(nullptr);
    }
    Phase(const Phase &) = delete;
    Phase &operator=(const Phase &) = delete;
};

static std::vector<unsigned> make(size_t count)
{
    Phase phase("making");
    std::mt19937 random(1);
    std::vector<unsigned> numbers(count);
    std::generate(numbers.begin(), numbers.end(), random);
    return numbers;
}

static size_t count_remainders(const std::vector<unsigned> &numbers)
{
    Phase phase("counting");
    std::map<unsigned, size_t> counts;
    for (unsigned n : numbers)
        counts[n % 10007]++;
    return counts.size();
}

int main()
{
    auto numbers = make(5000000);
    std::cout << count_remainders(numbers) << '\n';
}
