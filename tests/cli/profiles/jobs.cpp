/* A program of the golden outputs: recorded once, as the descriptions beside it say. */
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>
struct Job {
    int priority;
    std::string name;
    std::vector<double> data;
};
namespace work
{
template <class T> struct Queue {
    std::vector<T> items;
    void push(T t)
    {
        items.push_back(std::move(t));
    }
    void order()
    {
        std::sort(items.begin(), items.end(),
                  [](const T &a, const T &b) { return a->name < b->name; });
    }
};
__attribute__((noinline)) double run_job(const Job &job, std::map<std::string, double> &sums)
{
    double s = 0;
    for (double d : job.data)
        s += d * d / (1 + d);
    sums[job.name] += s;
    return s;
}
class Scheduler
{
    Queue<std::shared_ptr<Job>> q;
    std::map<std::string, double> sums;

  public:
    __attribute__((noinline)) void fill(int n)
    {
        std::mt19937 r(1);
        for (int i = 0; i < n; i++) {
            auto j = std::make_shared<Job>();
            j->priority = r() % 100;
            j->name = "job" + std::to_string(r() % 1000);
            j->data.resize(200);
            for (auto &d : j->data)
                d = r() % 1000;
            q.push(j);
        }
    }
    __attribute__((noinline)) double run_all()
    {
        double s = 0;
        q.order();
        for (auto &j : q.items)
            s += run_job(*j, sums);
        return s;
    }
};
} // namespace work
int main(int, char **)
{
    double s = 0;
    for (int i = 0; i < 6; i++) {
        work::Scheduler sch;
        sch.fill(30000);
        s += sch.run_all();
    }
    printf("%g\n", s);
}
