// One goroutine that computes, on the main thread, without memory from the heap: for single steps in the
// middle of Go code.
package main

import (
	"runtime"
	"sort"
	"strings"
)

func fib(n int) int {
	if n < 2 {
		return n
	}
	return fib(n-1) + fib(n-2)
}

func init() { runtime.LockOSThread() }

type byLength []string

func (b byLength) Len() int           { return len(b) }
func (b byLength) Less(i, j int) bool { return len(b[i]) < len(b[j]) }
func (b byLength) Swap(i, j int)      { b[i], b[j] = b[j], b[i] }

func compute(m map[string]int, words []string) (sum int) {
	defer func() { sum++ }()
	for i := 0; i < 300; i++ {
		sum += m[words[i%len(words)]] + fib(i%12)
		sum += strings.Index("abcdefghijkl", words[i%len(words)])
	}
	sort.Sort(byLength(words))
	return sum
}

func main() {
	words := strings.Split("a bb ccc abc def ghij klmn op q r stu vwxyz", " ")
	m := map[string]int{}
	for i, w := range words {
		m[w] = i
	}
	for i := 0; i < 100000; i++ {
		compute(m, words)
	}
}
