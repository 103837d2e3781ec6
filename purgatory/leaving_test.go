package purgatory_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/timer"
)

// requestContext is a context that is not of package context, as those of some servers are.
type requestContext struct {
	context.Context
	gone chan struct{}
}

func (c *requestContext) Done() <-chan struct{} { return c.gone }

func (c *requestContext) Err() error {
	select {
	case <-c.gone:
		return errGone
	default:
		return nil
	}
}

// To link a context to one of another type takes a goroutine. A wait has none.
func TestAWaitUnderAContextOfAnotherTypeStartsNoGoroutine(t *testing.T) {
	const waits = 600
	synctest.Test(t, func(t *testing.T) {
		p := open[string](t)
		ctx := &requestContext{t.Context(), make(chan struct{})}
		before := runtime.NumGoroutine()
		errs := make(chan error, waits)
		for range waits {
			go func() { errs <- p.Await(ctx, hour, func() bool { return false }, "a") }()
		}
		synctest.Wait()
		assert.Less(t, runtime.NumGoroutine()-before, waits+20, "the reaper and the like")
		require.Equal(t, waits, p.NumDelayed())
		close(ctx.gone)
		for range waits {
			require.ErrorIs(t, <-errs, errGone)
		}
		conserved(t, p)
		empty(t, p)
	})
}

// forms are the ways to wait for an item with a context.
var forms = map[string]func(ctx context.Context, p *purgatory.Purgatory[string], take func() bool) error{
	"Await": func(ctx context.Context, p *purgatory.Purgatory[string], take func() bool) error {
		return p.Await(ctx, hour, take, "line")
	},
	"AwaitAt": func(ctx context.Context, p *purgatory.Purgatory[string], take func() bool) error {
		return p.AwaitAt(ctx, hour, take, purgatory.KeyPosition[string]{Key: "line", Position: purgatory.AnyPosition})
	},
	"AwaitValue": func(ctx context.Context, p *purgatory.Purgatory[string], take func() bool) error {
		_, err := purgatory.AwaitValue(ctx, p, hour, func() (int, bool) { return 0, take() }, "line")
		return err
	},
}

// A wait whose context has ended returns its cause, and takes nothing, though there is an item (golang/go 63615, of the
// semaphore).
func TestNothingIsTakenUnderAContextThatHasEnded(t *testing.T) {
	for name, wait := range forms {
		for line, options := range map[string][]purgatory.Option{"in line": {purgatory.WithFirstInFirstOut()}, "at once": nil} {
			t.Run(name+", "+line, func(t *testing.T) {
				p := open[string](t, options...)
				ctx, leave := context.WithCancelCause(t.Context())
				leave(errGone)
				require.Equal(t, errGone, wait(ctx, p, func() bool {
					t.Error("it takes an item")
					return true
				}))
				s := conserved(t, p)
				assert.Equal(t, []int64{1, 0, 0}, []int64{s.PassedOver, s.Accepted, s.Pending})
			})
		}
	}
}

// lateContext ends when gone is closed, but says why only when told is closed: until then a wait that leaves has not left.
type lateContext struct {
	context.Context
	gone, told chan struct{}
}

func (c *lateContext) Done() <-chan struct{} { return c.gone }

func (c *lateContext) Err() error {
	<-c.told
	return errGone
}

// A storm of clients that have gone stands in the line before one that lives (vitess 20310). The check comes before their goroutines
// have run: the item goes to the living one, by this check.
func TestAnItemPassesTheDeadToTheLiving(t *testing.T) {
	test := func(t *testing.T, wait func(context.Context, *purgatory.Purgatory[string], func() bool) error, dead int, options []purgatory.Option) {
		p := open[string](t, options...)
		var items, toTheDead, toTheLiving atomic.Int32
		take := func(by *atomic.Int32) func() bool {
			return func() bool {
				if items.Load() == 0 {
					return false
				}
				items.Add(-1)
				by.Add(1)
				return true
			}
		}
		ctx := &lateContext{t.Context(), make(chan struct{}), make(chan struct{})}
		var all sync.WaitGroup
		for range dead {
			all.Go(func() { assert.Equal(t, errGone, wait(ctx, p, take(&toTheDead))) })
			synctest.Wait()
		}
		living, end := context.WithCancel(t.Context())
		all.Go(func() { assert.NoError(t, wait(living, p, take(&toTheLiving))) })
		synctest.Wait()
		close(ctx.gone)
		items.Store(1)
		assert.Equal(t, 1, p.CheckAndCompleteInOrder("line"))
		end() // it has its yes
		close(ctx.told)
		all.Wait()
		assert.EqualValues(t, dead, p.Stats().PassedOver, "each once")
		assert.Equal(t, []int32{0, 0, 1}, []int32{items.Load(), toTheDead.Load(), toTheLiving.Load()})
	}
	for name, wait := range forms {
		for line, options := range map[string][]purgatory.Option{"in line": {purgatory.WithFirstInFirstOut()}, "at once": nil} {
			for _, dead := range []int{1, 8, 1000} {
				t.Run(fmt.Sprintf("%s, %s, %d dead", name, line, dead), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { test(t, wait, dead, options) })
				})
			}
		}
	}
}

// The first in line needs three slots of two. Whichever way it waits and leaves, those behind it are tried, and nobody calls a check.
func TestWhoLeavesALineLetsThoseBehindBeTried(t *testing.T) {
	no := func() bool { return false }
	for name, first := range map[string]func(ctx context.Context, p *purgatory.Purgatory[string]) (leave func()){
		"a context that ends": func(ctx context.Context, p *purgatory.Purgatory[string]) func() {
			ctx, leave := context.WithCancel(ctx)
			go func() { _ = p.Await(ctx, hour, no, "line") }()
			return leave
		},
		"a timeout of Await": func(ctx context.Context, p *purgatory.Purgatory[string]) func() {
			go func() { _ = p.Await(ctx, time.Minute, no, "line") }()
			return func() { time.Sleep(time.Minute) }
		},
		"Stop": func(_ context.Context, p *purgatory.Purgatory[string]) func() {
			w, _ := p.StartWait(hour, no, "line")
			return func() { w.Stop() }
		},
		"Cancel": func(_ context.Context, p *purgatory.Purgatory[string]) func() {
			o := &op{}
			_, _ = p.TryCompleteElseWatch(o, hour, "line")
			return func() { p.Cancel(o, nil) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := open[string](t, purgatory.WithFirstInFirstOut())
				s := &slots{}
				leave := first(t.Context(), p)
				synctest.Wait()
				require.Equal(t, 1, p.NumDelayed())
				second := &op{try: s.take(2)}
				submit(t, p, second, 24*hour, "line")
				s.free = 2
				require.Zero(t, p.CheckAndCompleteInOrder("line"), "the first in line needs three")
				synctest.Wait()
				leave()
				synctest.Wait()
				assert.Equal(t, operation.Satisfied, second.Outcome())
				require.NoError(t, p.Close())
			})
		})
	}
}

// Where no check is in order nobody stands behind another, and nobody is tried because another one leaves.
func TestNobodyIsTriedWhereThereIsNoLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open[string](t)
		first, second := submitted(t, p, "a"), submitted(t, p, "a")
		require.Zero(t, p.CheckAndComplete("a"))
		tries := second.tries.Load()
		require.True(t, p.Cancel(first, nil))
		synctest.Wait()
		assert.Equal(t, tries, second.tries.Load())
		require.NoError(t, p.Close())
	})
}

// While the driver waits for the grace that follows a stall, no check expires anything either.
func TestACheckInOrderKeepsTheGraceAfterAStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open[string](t, purgatory.WithoutReaper(), purgatory.WithTimerOptions(timer.WithStallGrace(time.Second)))
		session := submitted(t, p, "line")
		require.True(t, p.Extend(session, 10*time.Second))
		time.Sleep(20 * time.Second) // the program was stopped
		go p.AdvanceClock(hour)      // the driver wakes up, and finds that it is late
		synctest.Wait()
		assert.Zero(t, p.CheckAndCompleteInOrder("line"))
		time.Sleep(time.Millisecond)
		assert.True(t, p.Extend(session, hour), "the heartbeat is in time")
		assert.NoError(t, p.Close())
	})
}

// An operation that a check in order expires is as late in the histogram as it was, and Inspect sees its deadline until it has ended.
func TestWhatACheckInOrderExpiresIsSeenAsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open[string](t, purgatory.WithoutReaper(), purgatory.WithHistograms())
		o, looks := &op{}, false
		submit(t, p, o, time.Minute, "line")
		var left []time.Duration
		submit(t, p, &op{try: func() bool {
			if looks {
				for _, r := range p.Inspect(0, 10).Oldest {
					left = append(left, r.Left)
				}
			}
			return false
		}}, hour, "line")
		time.Sleep(2 * time.Minute)
		looks = true
		assert.Equal(t, 1, p.CheckAndCompleteInOrder("line"))
		ended(t, o, operation.Expired)
		assert.Contains(t, left, -time.Minute)
		assert.NotContains(t, left, purgatory.NoTimeout)
		assert.EqualValues(t, 1, p.Stats().Late.Count())
		assert.NoError(t, p.Close())
	})
}
