package meter

import (
	"runtime"
	"sync"
	"time"
)

// Peak samples a number while work goes on and keeps the largest.
type Peak struct {
	stop chan struct{}
	wait sync.WaitGroup
	max  int
}

// WatchPeak starts sampling read every so often, on a goroutine of its own.
func WatchPeak(every time.Duration, read func() int) *Peak {
	p := &Peak{stop: make(chan struct{})}
	p.wait.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			p.max = max(p.max, read())
			select {
			case <-tick.C:
			case <-p.stop:
				return
			}
		}
	})
	return p
}

// WatchGoroutines starts sampling the number of goroutines.
func WatchGoroutines() *Peak { return WatchPeak(5*time.Millisecond, runtime.NumGoroutine) }

// Stop ends the sampling and returns the largest value seen.
func (p *Peak) Stop() int {
	close(p.stop)
	p.wait.Wait()
	return p.max
}
