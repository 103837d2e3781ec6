//go:build interleave

package programs

import (
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/internal/workers"
	"github.com/delayedop/purgatory/proof/explore"
)

// TestPools runs a pool of workers whose executor refuses some calls, whose work ends its
// goroutine or queues more, and whose log kicks again. No more than its limit run at once, and no
// work is left when nothing can go on; where the executor refuses, when its pauses have passed.
func TestPools(t *testing.T) { runFamily(t, "pool", drawPool) }

// pools is a program.
type pools struct {
	limit, kickers, each int
	refuses              uint8 // bit i: the i-th call of the executor
	goexits              uint8 // bit i: the i-th piece of work
	queues               uint8 // likewise: it queues one more, and kicks
	again                bool  // who hears of a refusal kicks
}

func drawPool(d *drawer) small {
	p := &pools{limit: 1 + d.IntN(2), kickers: 2 + d.IntN(2), each: 1 + d.IntN(2), goexits: uint8(d.IntN(4)), queues: uint8(d.IntN(4)), again: d.oneIn(3)}
	if d.oneIn(3) {
		p.refuses = uint8(d.IntN(8))
	}
	return small{fmt.Sprintf("%+v\n", *p), p.setup}
}

func (g *pools) setup(spawn func(string, func())) func() error {
	queued, running, most, done, calls := 0, 0, 0, 0, 0
	added := g.kickers * g.each
	var p *workers.Pool
	work := func() bool {
		sched.Yield()
		if queued == 0 {
			return false
		}
		queued--
		n := done
		done++
		running++
		most = max(most, running)
		defer func() { running-- }()
		p.Look() // as before code that may block
		sched.Yield()
		if g.queues>>n&1 == 1 {
			queued++
			added++
			p.Kick()
		}
		if g.goexits>>n&1 == 1 {
			runtime.Goexit()
		}
		return true
	}
	waiting := func() bool { sched.Yield(); return queued > 0 }
	var spawner func(func()) error
	if g.refuses != 0 {
		spawner = func(run func()) error {
			calls++
			if g.refuses>>(calls-1)&1 == 1 {
				return errBusy
			}
			sched.Go(run)
			return nil
		}
	}
	refused := func(error) {
		if g.again {
			p.Kick()
		}
	}
	p = workers.New(g.limit, work, waiting, spawner, refused, nil)
	for i := range g.kickers {
		spawn(fmt.Sprint("kicker", i), func() {
			for range g.each {
				sched.Yield()
				queued++
				p.Kick()
			}
		})
	}
	var faults []error
	spawn("last", func() {
		explore.Settle()
		if g.refuses != 0 {
			for range 8 {
				sched.Advance(workers.RetryAfter + time.Nanosecond)
				explore.Settle()
			}
		}
		if queued > 0 || done != added || p.Running() != 0 || most > g.limit {
			faults = append(faults, fmt.Errorf("%d of %d pieces are queued, %d were done, %d workers run, %d at once", queued, added, done, p.Running(), most))
		}
	})
	return func() error { return errors.Join(faults...) }
}
