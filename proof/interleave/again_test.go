//go:build interleave

package interleave

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/proof/explore"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/timer"
	"github.com/delayedop/purgatory/watermark"
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

// Two wait for one position of a watermark, the second perhaps with what the first has left, while something ends the first. Whoever is to
// be told of the end is told, and of no other.
func TestACrowdIsUsedAgain(t *testing.T) {
	for _, timed := range []bool{false, true} {
		for _, end := range []string{"clock", "context", "cancel for key"} {
			exploreOne(t, fmt.Sprintf("crowd+crowd/%s/timed=%v", strings.ReplaceAll(end, " ", "-"), timed), min(*tripleBound, 1), func(spawn func(string, func())) func() error {
				p, clock := lightPurgatory()
				w := watermark.New(p, 1, 0)
				ctx, cancel := context.WithCancelCause(context.Background())
				first, second := timeout, 100*timeout
				if !timed {
					first, second = purgatory.NoTimeout, purgatory.NoTimeout
				}
				var errs [2]error
				spawn("first", func() { errs[0] = w.Await(ctx, first, 6) })
				spawn("second", func() { errs[1] = w.Await(context.Background(), second, 6) })
				spawn(end, func() {
					switch end {
					case "clock":
						clock.AdvanceClock(timeout)
					case "context":
						sched.Yield()
						cancel(errCause)
					default:
						p.CancelForKey(1, errCause)
					}
				})
				spawn("rises", func() { w.Advance(7) })
				return func() error {
					wrong := errs[1] != nil && end != "cancel for key" || errs[0] != nil && !errors.Is(errs[0], errCause) && !errors.Is(errs[0], purgatory.ErrExpired)
					if wrong || w.Waiting() > 0 || clock.Pending() > 0 || p.NumDelayed() > 0 {
						return fmt.Errorf("%v; %d wait, %d entries, %d operations", errs, w.Waiting(), clock.Pending(), p.NumDelayed())
					}
					return nil
				}
			})
		}
	}
}
