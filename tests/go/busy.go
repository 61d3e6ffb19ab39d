// Goroutines that do what goes through the odd places of Go's runtime: deep recursion on stacks that
// grow, garbage collection, the clock, channels, defers, panics by signal, timers, system calls.
package main

import (
	"fmt"
	"os"
	"runtime"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"
)

type node struct {
	left, right *node
	key         int
}

func insert(n *node, key int) *node {
	if n == nil {
		return &node{key: key}
	}
	if key < n.key {
		n.left = insert(n.left, key)
	} else {
		n.right = insert(n.right, key)
	}
	return n
}

func depth(n *node) int {
	if n == nil {
		return 0
	}
	left, right := depth(n.left), depth(n.right)
	if left > right {
		return left + 1
	}
	return right + 1
}

// Grows the stack of a new goroutine, so that it is copied several times.
func recurse(n int) int {
	var room [64]byte
	room[n%64] = byte(n)
	if n == 0 {
		return int(room[0])
	}
	return recurse(n-1) + int(room[n%64])%2
}

func faults(p *node) (key int) {
	defer func() {
		if recover() != nil {
			key = -1
		}
	}()
	return p.key
}

func trees() {
	var root *node
	for i := 0; i < 2000; i++ {
		root = insert(root, i*7919%2003)
	}
	if depth(root) < 10 {
		panic("depth")
	}
}

func texts() {
	words := make([]string, 0, 500)
	for i := 0; i < 500; i++ {
		words = append(words, strconv.Itoa(i*31%997))
	}
	sort.Strings(words)
	if !strings.Contains(strings.Join(words, " "), "31") {
		panic("words")
	}
}

func clocks() {
	last := time.Now()
	for i := 0; i < 2000; i++ {
		if now := time.Now(); now.Before(last) {
			panic("clock")
		} else {
			last = now
		}
	}
}

func channels() {
	numbers := make(chan int)
	go func() {
		for i := 0; i < 500; i++ {
			numbers <- i
		}
		close(numbers)
	}()
	sum := 0
	for i := range numbers {
		sum += i
	}
	if sum != 500*499/2 {
		panic("sum")
	}
}

func deep() {
	done := make(chan int)
	go func() { done <- recurse(5000) }()
	<-done
}

func errors() {
	for i := 0; i < 50; i++ {
		if faults(nil) != -1 {
			panic("no fault")
		}
		os.Getpid()
		os.Stat("/")
	}
}

func spin() {
	sum := 0
	for i := 0; i < 3000000; i++ { // without a call: only a signal can interrupt it
		sum += i * i
	}
	if sum == 1 {
		fmt.Println(sum)
	}
}

func main() {
	rounds := 1
	if len(os.Args) > 1 {
		rounds, _ = strconv.Atoi(os.Args[1])
	}
	work := []func(){trees, texts, clocks, channels, deep, errors, spin, runtime.GC}
	for i := 0; i < rounds; i++ {
		var group sync.WaitGroup
		for _, f := range work {
			group.Add(1)
			go func(f func()) {
				defer group.Done()
				f()
			}(f)
		}
		group.Wait()
	}
	fmt.Println("done")
}
