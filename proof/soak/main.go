// Command soak runs a randomised mix of everything that a purgatory can do, for as
// long as one likes, and looks each second whether every operation is accounted for.
//
//	go run ./proof/soak -for 10m
//	go run ./proof/soak -storm 1000000      a million expire while a million register
//	go run ./proof/soak -pending 10000000   what ten million waiting operations take
//
// It ends with status 1 when an operation is lost, ends twice, early, or beside its own
// check, when a wake-up is lost, when a counter is wrong, or when memory or
// goroutines are left in the end.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"time"
)

func main() {
	length := flag.Duration("for", time.Minute, "how long to run the mix")
	goroutines := flag.Int("goroutines", 4*runtime.GOMAXPROCS(0), "how many goroutines do it")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()), "of the mix; schedules differ all the same")
	storm := flag.Int("storm", 0, "instead: expire so many while as many register")
	pending := flag.Int("pending", 0, "instead: have so many wait, and print the memory that they take")
	flag.Parse()

	var err error
	switch {
	case *storm > 0:
		err = runStorm(*storm)
	case *pending > 0:
		err = runPending(*pending)
	default:
		fmt.Printf("soak: %v, %d goroutines, seed %d\n", *length, *goroutines, *seed)
		err = runMix(*length, *goroutines, *seed)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak: FAILED:", err)
		os.Exit(1)
	}
}

// heap returns the bytes that are reachable now.
func heap() uint64 {
	runtime.GC()
	runtime.GC() // what sync.Pool keeps survives the first
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func megabytes(bytes uint64) string { return fmt.Sprintf("%.1f MB", float64(bytes)/1e6) }

// eventually asks ok until it says yes, for half a minute at most.
func eventually(ok func() bool) bool {
	for deadline := time.Now().Add(30 * time.Second); !ok(); {
		if time.Now().After(deadline) {
			return false
		}
		time.Sleep(time.Millisecond)
	}
	return true
}
