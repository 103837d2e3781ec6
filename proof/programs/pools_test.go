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

// TestPools runs a pool of workers whose work ends its goroutine or queues more. No more than its
// limit run at once, and no work is left when nothing can go on.
func TestPools(t *testing.T) { runFamily(t, "pool", drawPool) }

// pools is a program.
type pools struct {
	limit, kickers, each int
	goexits              uint8 // bit i: the i-th piece of work
	queues               uint8 // likewise: it queues one more, and kicks
	lingers, stops       bool  // a worker may linger; a goroutine forbids it meanwhile
	passes               bool  // the time passes meanwhile after which none lingers
}

// job does what a program says.
type job struct{ work, waiting func() bool }

func (j job) Work() bool   { return j.work() }
func (j job) Queued() bool { return j.waiting() }

func drawPool(d *drawer) small {
	p := &pools{limit: 1 + d.IntN(2), kickers: 2 + d.IntN(2), each: 1 + d.IntN(2), goexits: uint8(d.IntN(4)), queues: uint8(d.IntN(4)), lingers: d.IntN(2) == 0, stops: d.IntN(4) == 0, passes: d.IntN(2) == 0}
	return small{fmt.Sprintf("%+v\n", *p), p.setup}
}

func (g *pools) setup(spawn func(string, func())) func() error {
	queued, running, most, done := 0, 0, 0, 0
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
		p.KickIfQueued() // as before code that may block
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
	p = new(workers.Pool)
	p.Init(g.limit, job{work, waiting})
	if g.lingers {
		p.MayLinger()
	}
	if g.stops {
		spawn("stops", func() { p.Dismiss() })
	}
	for i := range g.kickers {
		spawn(fmt.Sprint("kicker", i), func() {
			for range g.each {
				sched.Yield()
				queued++
				p.Kick()
			}
		})
	}
	if g.passes {
		spawn("time", func() { sched.Advance(time.Second) })
	}
	var faults []error
	spawn("last", func() {
		explore.Settle()
		if !g.passes {
			queued, added = queued+1, added+1
			p.Kick() // of a worker that lingers
			explore.Settle()
		}
		sched.Advance(time.Second) // it ends: a run must not end with a goroutine that waits
		explore.Settle()
		if queued > 0 || done != added || !p.Idle() || most > g.limit {
			faults = append(faults, fmt.Errorf("%d of %d pieces are queued, %d were done, %d workers run, %d at once", queued, added, done, p.Running(), most))
		}
	})
	return func() error { return errors.Join(faults...) }
}
