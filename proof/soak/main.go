// Command soak runs a random mix of registrations, checks, signals, cancellations,
// extensions and waits for a given time, and checks each second that every operation is
// accounted for.
//
//	go run ./proof/soak -for 10m
//	go run ./proof/soak -storm 1000000      a million operations expire while a million register
//	go run ./proof/soak -pending 10000000   the memory of ten million waiting operations
//
// It exits with status 1 if an operation is lost, ends twice or too early, or ends while
// its TryComplete runs; if a wake-up is lost; if a counter is wrong; or if memory or
// goroutines are left at the end.
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
	goroutines := flag.Int("goroutines", 4*runtime.GOMAXPROCS(0), "number of goroutines that make the calls")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()), "seed of the mix; the schedule of goroutines is not reproduced")
	storm := flag.Int("storm", 0, "instead: expire so many operations while as many register")
	pending := flag.Int("pending", 0, "instead: let so many operations wait, and print their memory")
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

// heap returns the number of bytes of reachable memory.
func heap() uint64 {
	runtime.GC()
	runtime.GC() // a sync.Pool keeps its contents over one collection
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func megabytes(bytes uint64) string { return fmt.Sprintf("%.1f MB", float64(bytes)/1e6) }

// eventually calls ok until it returns true, for at most 30 seconds. It reports whether
// ok has returned true.
func eventually(ok func() bool) bool {
	for deadline := time.Now().Add(30 * time.Second); !ok(); {
		if time.Now().After(deadline) {
			return false
		}
		time.Sleep(time.Millisecond)
	}
	return true
}
