/*
 * An index of words: strings, maps and vectors, as C++ programs have them. Some pages are dropped
 * again, one list is never freed. Prints what it found, and its CPU seconds as the last line.
 *
 *     events_words PAGES
 */
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <string>
#include <vector>

namespace
{

using places = std::vector<uint32_t>;
using word_index = std::map<std::string, places>;

uint64_t random_state = 88172645463325252u;

uint64_t random_number()
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

/* Short words are frequent, as in texts; half are longer than what a std::string has room for. */
std::string make_word()
{
    std::string word("word");
    for (uint64_t rest = random_number() % 20000; rest; rest /= 3)
        word += static_cast<char>('a' + rest % 26);
    if (random_number() % 2)
        word += "-and-more-letters";
    return word;
}

std::string make_page()
{
    std::string page;
    for (int i = 0; i < 200; i++)
        page += make_word() + " ";
    return page;
}

std::vector<std::string> split(const std::string &page)
{
    std::vector<std::string> words;
    for (size_t at = 0, end; (end = page.find(' ', at)) != std::string::npos; at = end + 1)
        words.push_back(page.substr(at, end - at));
    return words;
}

void add_page(word_index &index, uint32_t number)
{
    for (const std::string &word : split(make_page()))
        index[word].push_back(number);
}

size_t drop_rare(word_index &index)
{
    size_t dropped = 0;
    for (auto at = index.begin(); at != index.end();) {
        if (at->second.size() < 3) {
            at = index.erase(at);
            dropped++;
        } else {
            ++at;
        }
    }
    return dropped;
}

std::vector<std::string> *remember_titles(const word_index &index)
{
    auto *titles = new std::vector<std::string>;
    for (const auto &[word, where] : index)
        if (where.size() > 20)
            titles->push_back("title of " + word);
    return titles;
}

} // namespace

int main(int argc, char **argv)
{
    const std::clock_t start = std::clock();
    const uint32_t pages = argc > 1 ? static_cast<uint32_t>(std::atoi(argv[1])) : 1000;
    size_t dropped = 0, titles = 0;
    word_index index;
    for (uint32_t i = 0; i < pages; i++) {
        add_page(index, i);
        if (i % 1000 == 999)
            dropped += drop_rare(index);
    }
    titles = remember_titles(index)->size();
    std::printf("%zu words, %zu dropped, %zu titles\n", index.size(), dropped, titles);
    std::printf("%.6f\n", static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
    return 0;
}
