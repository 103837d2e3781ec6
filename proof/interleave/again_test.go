//go:build interleave

package interleave

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/proof/explore"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/timer"
)

// brittle is a context that panics when it is asked why it has ended.
type brittle struct{ context.Context }

func (brittle) Err() error    { panic("a context that panics") }
func (brittle) Value(any) any { panic("a context that panics") }

// firsts are what comes into the first of two waits: in the second call of its condition, or by its context.
var firsts = map[string]struct {
	second func()
	ctx    func(context.Context) context.Context
}{
	"ends":               {},
	"exits":              {second: runtime.Goexit},
	"panics":             {second: func() { panic("a condition that panics") }},
	"has a context":      {ctx: func(ctx context.Context) context.Context { return ctx }},
	"has a brittle one":  {ctx: func(ctx context.Context) context.Context { return brittle{ctx} }},
	"exits in a context": {second: runtime.Goexit, ctx: func(ctx context.Context) context.Context { return ctx }},
}

// Two waits come one after the other, the second of which uses the channel of the first, while a check, a worker of the timer, the
// context or the condition itself ends the first. A token that the first has left would end the second.
func TestAChannelIsUsedAgain(t *testing.T) {
	for _, name := range slices.Sorted(keysOf(firsts)) {
		first, bound := firsts[name], *tripleBound
		if name != "ends" {
			bound = min(bound, 1)
		}
		exploreOne(t, "await+await/"+strings.ReplaceAll(name, " ", "-"), bound, func(spawn func(string, func())) func() error {
			clock, err := timer.NewSystemTimer(timer.WithShards(1), timer.WithWorkers(1)) // with a manual one no channel is used again
			must(err)
			p, err := purgatory.New[int]("again", purgatory.WithTimer(clock), purgatory.WithoutReaper(),
				purgatory.WithPanicHandler(func(any, []byte) {}))
			must(err)
			state, calls := 0, 0
			reaches := func(n int) func() bool {
				return func() bool { sched.Yield(); return state >= n }
			}
			ctx, cancel := context.WithCancelCause(context.Background())
			spawn("waits", func() {
				over := make(chan struct{})
				sched.Go(func() {
					defer close(over)
					defer func() { _ = recover() }() // the context's
					within := context.Background()
					if first.ctx != nil {
						within = first.ctx(ctx)
					}
					e := p.Await(within, timeout, func() bool {
						calls++
						yes := reaches(1)()
						if !yes && calls == 2 && first.second != nil {
							first.second()
						}
						return yes
					}, 1)
					if e != nil && !errors.Is(e, purgatory.ErrExpired) && !errors.Is(e, errCause) {
						err = errors.Join(err, e)
					}
				})
				sched.Receive(over)
				if e := p.Await(context.Background(), 100*timeout, reaches(2), 1); e != nil || state < 2 {
					err = errors.Join(err, errors.New("the second wait ends too early"), e)
				}
				_ = p.Close()
				explore.Settle()
				sched.Advance(time.Second) // of a worker that lingers
			})
			spawn("raises", func() {
				for range 2 {
					sched.Yield()
					state++
					p.CheckAndComplete(1)
				}
			})
			spawn("clock", func() {
				sched.Yield()
				cancel(errCause)
				sched.Advance(timeout + time.Millisecond)
				p.AdvanceClock(0)
			})
			return func() error {
				if n := clock.Pending(); n > 0 || p.NumDelayed() > 0 {
					err = errors.Join(err, errors.New("a wait is left"))
				}
				clock.Stop()
				return err
			}
		})
	}
}
