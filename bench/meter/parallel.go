package meter

import (
	"runtime"
	"sync"
	"time"
)

// Rate is the cost of one operation of a loop run on several goroutines at once.
type Rate struct {
	Ops         int64
	NsPerOp     float64 // wall time per operation of all goroutines together: 1 / total throughput
	CPUPerOp    float64 // ns
	AllocsPerOp float64
	BytesPerOp  float64
}

// Loop measures body on g goroutines for about a window. body(worker, n) does n operations. Memory is touched and the
// loop is run for a fifth of the window before the clock starts.
func Loop(g int, window time.Duration, chunk int, body func(worker, n int)) Rate {
	return alternate(g, window, 1, chunk, false, body)[0]
}

// turns is how many slices the window of a body has that takes turns with others.
const turns = 5

// Alternate is Loop for bodies that are compared: each has a window, in slices that take turns with the others', so that
// what slows the machine for a moment slows them all. The heap is collected before each slice, so that no body pays for
// another's garbage.
func Alternate(g int, window time.Duration, chunk int, bodies ...func(worker, n int)) []Rate {
	return alternate(g, window, turns, chunk, true, bodies...)
}

// Share is Alternate without the collections: the bodies share the collector's cycles, each of which is paid for by the
// body that runs meanwhile. It is for a live heap so large that the collector runs less often than slices change; the
// window must be long enough for some of its cycles.
func Share(g int, window time.Duration, chunk int, bodies ...func(worker, n int)) []Rate {
	return alternate(g, window, turns, chunk, false, bodies...)
}

func alternate(g int, window time.Duration, slices, chunk int, collect bool, bodies ...func(worker, n int)) []Rate {
	PrefaultForGrowth()
	for _, body := range bodies {
		spin(g, window/5, chunk, body)
	}
	sums := make([]sum, len(bodies))
	for range slices {
		for i, body := range bodies {
			if collect {
				runtime.GC()
			}
			s := Start()
			ops, perSecond := spin(g, window/time.Duration(slices), chunk, body)
			sums[i].add(s.Stop(), ops, perSecond)
		}
	}
	rates := make([]Rate, len(bodies))
	for i := range sums {
		rates[i] = sums[i].rate()
	}
	return rates
}

// sum is what the slices of a loop took.
type sum struct {
	cost    Cost
	ops     int64
	seconds float64 // that the operations take at the throughput of their slice
}

func (s *sum) add(c Cost, ops int64, perSecond float64) {
	s.cost.CPU += c.CPU
	s.cost.Mallocs += c.Mallocs
	s.cost.Bytes += c.Bytes
	s.ops += ops
	s.seconds += float64(ops) / perSecond
}

func (s *sum) rate() Rate {
	n := float64(s.ops)
	return Rate{
		Ops:         s.ops,
		NsPerOp:     1e9 * s.seconds / n,
		CPUPerOp:    float64(s.cost.CPU) / n,
		AllocsPerOp: float64(s.cost.Mallocs) / n,
		BytesPerOp:  float64(s.cost.Bytes) / n,
	}
}

// spin sums the throughput of the goroutines, each over its own time: one that ends a chunk later than the others does not
// stretch their figure.
func spin(g int, window time.Duration, chunk int, body func(worker, n int)) (ops int64, perSecond float64) {
	var (
		ready, done sync.WaitGroup
		mu          sync.Mutex
		begin       = make(chan struct{})
	)
	for w := range g {
		ready.Add(1)
		done.Go(func() {
			ready.Done()
			<-begin
			start := time.Now()
			var mine int64
			var took time.Duration
			for took < window {
				body(w, chunk)
				mine += int64(chunk)
				took = time.Since(start)
			}
			mu.Lock()
			defer mu.Unlock()
			ops += mine
			perSecond += float64(mine) / took.Seconds()
		})
	}
	ready.Wait()
	close(begin)
	done.Wait()
	return ops, perSecond
}
