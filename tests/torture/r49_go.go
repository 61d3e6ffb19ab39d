// Row 49: goroutines on stacks of 2 KB that grow, with signal handlers of their own, next to C.
package main

// static int twice(int x) { return 2 * x; }
import "C"
import "fmt"

func burn(n int) int {
	s := 0
	for i := 0; i < n; i++ {
		s = s*1664525 + 1013904223 ^ i
	}
	return s
}

func deep(n int) int {
	var pad [32]int
	if n == 0 {
		return burn(200000)
	}
	pad[n%32] = n
	return deep(n-1) + pad[(n*7)%32]
}

func main() {
	results := make(chan int, 64)
	total := 0
	for i := 0; i < 64; i++ {
		go func(i int) { results <- deep(i)&0xff + int(C.twice(C.int(i))) }(i)
	}
	for i := 0; i < 64; i++ {
		total += <-results
	}
	fmt.Println("total", total)
}
