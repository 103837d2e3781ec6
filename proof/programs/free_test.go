//go:build !interleave

package programs

import (
	"flag"
	"testing"
	"testing/synctest"
	"time"
)

var freePrograms = flag.Uint64("programs", 400, "how many programs to run")

// TestProgramsOnGoroutines runs programs on Go's own scheduler, with the same oracles. Under the
// race detector it finds reads and writes that are not ordered, which package explore cannot
// see, because there one goroutine at a time runs.
func TestProgramsOnGoroutines(t *testing.T) {
	n := *freePrograms
	if testing.Short() {
		n /= 10
	}
	for seed := range n {
		p := draw(seed)
		synctest.Test(t, func(t *testing.T) {
			settle := func() {
				time.Sleep(time.Minute) // of the bubble: what polls has ended, and no operation waits for longer
				synctest.Wait()
			}
			w := newWorld(p, settle, time.Sleep)
			w.before()
			for _, steps := range p.goroutines[1:] {
				go w.run(steps)
			}
			settle()
			w.judge()
			w.finish()
			if err := w.atRest(); err != nil {
				t.Errorf("%v\n%vprogram %d", err, p, seed)
			}
		})
		if t.Failed() {
			return
		}
	}
}
