package meter

import (
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
	PrefaultForGrowth()
	spin(g, window/5, chunk, body)
	s := Start()
	ops, perSecond := spin(g, window, chunk, body)
	c, n := s.Stop(), float64(ops)
	return Rate{
		Ops:         ops,
		NsPerOp:     1e9 / perSecond,
		CPUPerOp:    float64(c.CPU) / n,
		AllocsPerOp: float64(c.Mallocs) / n,
		BytesPerOp:  float64(c.Bytes) / n,
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
