// Go calls C, which calls Go.
package main

/*
extern void goCallback(int);

static int burn(int n)
{
    volatile int sum = 0;
    for (int i = 0; i < n * 1000; i++)
        sum += i;
    return sum;
}

static void call_back(int n)
{
    burn(n);
    goCallback(n);
}
*/
import "C"

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"
)

var stops bool

//export goCallback
func goCallback(n C.int) {
	if n > 0 {
		deeper(int(n))
		return
	}
	if !stops {
		return
	}
	var pcs [512]uintptr
	count := runtime.Callers(1, pcs[:])
	fmt.Printf("point callback %d", syscall.Gettid())
	for _, pc := range pcs[:count] {
		fmt.Printf(" %x", pc)
	}
	fmt.Println()
	syscall.RawSyscall(syscall.SYS_TGKILL, uintptr(os.Getpid()), uintptr(syscall.Gettid()), uintptr(syscall.SIGSTOP))
}

func deeper(n int) {
	C.call_back(C.int(n - 1))
}

func main() {
	rounds := 1
	if len(os.Args) > 1 {
		rounds, _ = strconv.Atoi(os.Args[1])
	} else {
		stops = true
	}
	runtime.LockOSThread()
	for i := 0; i < rounds; i++ {
		deeper(3)
	}
	fmt.Println("done")
}
