// At some points of its way, each goroutine says what Go thinks of its stack, and stops the process,
// so that others can look at it: "point NAME THREAD PC PC ...", innermost first. What is called to
// stop it is further in than the first of these.
package main

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"
)

var out sync.Mutex

func point(name string) {
	var pcs [512]uintptr
	runtime.LockOSThread()
	count := runtime.Callers(2, pcs[:])
	out.Lock()
	fmt.Printf("point %s %d", name, syscall.Gettid())
	inlined := false
	for i := range pcs[:count] {
		if !inlined { // else it is no frame, but the function that the last one was inlined into
			fmt.Printf(" %x", pcs[i])
		}
		frame, _ := runtime.CallersFrames(pcs[i : i+1]).Next()
		inlined = frame.Func == nil
	}
	fmt.Println()
	syscall.RawSyscall(syscall.SYS_TGKILL, uintptr(os.Getpid()), uintptr(syscall.Gettid()), uintptr(syscall.SIGSTOP))
	out.Unlock()
	runtime.UnlockOSThread()
}

func down(n int, name string) int {
	var room [40]byte
	room[n%40] = 1
	if n == 0 {
		point(name)
		return 0
	}
	return down(n-1, name) + int(room[n%40])
}

type shape interface{ visit(func(string)) }
type square struct{ name string }

func (s square) visit(f func(string)) { f(s.name) }

func deferred() {
	defer point("deferred")
	down(3, "before")
}

// A read through a nil pointer: the kernel's signal becomes a call of sigpanic.
func faulting(p *square) (name string) {
	defer func() {
		point("fault")
		recover()
	}()
	return p.name
}

func panicking() {
	defer func() { recover() }()
	defer point("panic")
	panic("on purpose")
}

func main() {
	down(0, "main")
	down(200, "deep")
	deferred()
	faulting(nil)
	panicking()
	shape(square{"interface"}).visit(point)
	done := make(chan bool)
	go func() {
		down(100, "goroutine")
		done <- true
	}()
	<-done
	time.AfterFunc(0, func() {
		point("timer")
		done <- true
	})
	<-done
	runtime.GC()
	down(5, "collected")
	fmt.Println("done")
}
