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
// loop is run for a fifth of the window before the clock starts. A window of 0 measures nothing: each slice does one chunk, which
// shows that the body runs.
func Loop(g int, window time.Duration, chunk int, body func(worker, n int)) Rate {
	return Alternate(g, window, chunk, body)[0]
}

// Alternate is Loop for bodies that are compared: each has a window, in slices that take turns with the others', so that
// what slows the machine for a moment slows them all.
func Alternate(g int, window time.Duration, chunk int, bodies ...func(worker, n int)) []Rate {
	const slices = 5
	PrefaultForGrowth()
	for _, body := range bodies {
		spin(g, window/slices, chunk, body)
	}
	rates := make([]Rate, len(bodies))
	for range slices {
		for i, body := range bodies {
			s := Start()
			ops, perSecond := spin(g, window/slices, chunk, body)
			rates[i].add(s.Stop(), ops, 1e9/perSecond)
		}
	}
	return rates
}

// add makes r the mean of its operations and those of one more slice.
func (r *Rate) add(c Cost, ops int64, nsPerOp float64) {
	r.Ops += ops
	share := float64(ops) / float64(r.Ops)
	mix := func(mean *float64, slice float64) { *mean += (slice - *mean) * share }
	mix(&r.NsPerOp, nsPerOp)
	mix(&r.CPUPerOp, float64(c.CPU)/float64(ops))
	mix(&r.AllocsPerOp, float64(c.Mallocs)/float64(ops))
	mix(&r.BytesPerOp, float64(c.Bytes)/float64(ops))
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
			for mine == 0 || took < window {
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
