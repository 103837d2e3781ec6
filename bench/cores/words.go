package main

import (
	"fmt"
	"io"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// word is a way in which goroutines write words of memory.
type word struct {
	name  string
	write func(worker int)
}

func words() []word {
	var one atomic.Int64
	var neighbours, bits [2]atomic.Uint64
	var padded [2]struct {
		atomic.Int64
		_ [120]byte
	}
	bounded := func(word *atomic.Int64, limit int64) {
		for n := word.Load(); n < limit; n = word.Load() {
			if word.CompareAndSwap(n, n+1) {
				return
			}
		}
	}
	const limit = math.MaxInt64
	return []word{
		{"a word of its own", func(w int) { padded[w].Add(1) }},
		{"two words of one line", func(w int) { neighbours[w].Add(1) }},
		{"one word, added to (pool.running, gate)", func(int) { one.Add(1) }},
		{"one word, bounded (WithMaxPending)", func(int) { bounded(&one, limit); one.Add(-1) }},
		{"bits of one word (ready, signalled)", func(w int) { bits[0].Or(1 << w); bits[0].And(^(1 << w)) }},
		{"bits of two words of one line", func(w int) { bits[w].Or(1); bits[w].And(^uint64(1)) }},
		{"one word, only read", func(int) { _ = one.Load() }},
	}
}

// timeWord returns how long a write of one goroutine takes, and how many slices say so.
func timeWord(w word, goroutines int, most time.Duration) (ns float64, slices int) {
	const chunk = 256
	var windows []window
	var f figure
	for begun := time.Now(); f.slices < enough && time.Since(begun) < most; f = atLevel(windows, 1, 2) {
		windows = append(windows, aWindow(goroutines, 5*time.Millisecond, alone, func(worker int, s *stream) {
			for s.more(chunk) {
				for range chunk {
					w.write(worker)
				}
			}
		}))
	}
	return 1e9 * float64(goroutines) / f.rate, f.slices
}

func writeWords(w io.Writer, most time.Duration) {
	if ns, ok := timeLine(most); ok {
		fmt.Fprintf(w, "a line moves in %.0f ns\n", ns)
	} else {
		fmt.Fprintln(w, "how fast a line moves is not known: two processors were never free at the same time")
	}
	fmt.Fprintf(w, "%-42s %14s %14s\n", "ns for one goroutine's write (slices)", "one processor", "two")
	for _, word := range words() {
		one, n1 := timeWord(word, 1, most)
		two, n2 := timeWord(word, 2, most)
		fmt.Fprintf(w, "%-42s %8.1f (%d) %8.1f (%d)\n", word.name, one, n1, two, n2)
	}
}

// timeLine returns how long a cache line takes from one processor to another: two goroutines write a word in turns, and the
// fastest of many short runs is one in which both had a processor. It is not ok if none was over in time: where the goroutines
// share a processor, a turn takes milliseconds.
func timeLine(most time.Duration) (ns float64, ok bool) {
	const turns, runs = 200, 5000
	var word, over struct {
		atomic.Int64
		_ [120]byte // both are read again and again: no line has two of them
	}
	defer time.AfterFunc(most, func() { over.Store(1) }).Stop()
	var done sync.WaitGroup
	done.Go(func() {
		for n := int64(1); over.Load() == 0; {
			if word.CompareAndSwap(n, n+1) {
				n += 2
			}
		}
	})
	defer done.Wait()
	defer over.Store(1)
	ns = math.Inf(1)
	for run, n := 0, int64(0); run < runs; run++ {
		start := time.Now()
		for range turns {
			for !word.CompareAndSwap(n, n+1) {
				if over.Load() != 0 {
					return ns, ok
				}
			}
			n += 2
		}
		ns, ok = min(ns, float64(time.Since(start))/(2*turns)), true
	}
	return ns, ok
}
