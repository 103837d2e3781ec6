//go:build interleave

package programs

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/delayedop/purgatory/future"
	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/proof/explore"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/timer"
)

// TestFutures runs one future beside goroutines that deliver, post, cancel, wait, leave, close
// and let time pass.
//
//   - The function of GatherFunc, where there is one, is called once, with what Wait returns, and every Wait returns
//     the same.
//   - The results are exactly those that Deliver and Post say were taken, in that order, and no
//     source counts twice.
//   - If enough of them have come, there is no error; if too many have failed, it is
//     ErrUnreachable; and otherwise the future has expired, was cancelled or closed.
//   - A future that is decided ends, without its timeout: nothing else moves the clock.
func TestFutures(t *testing.T) { runFamily(t, "future", drawFuture) }

type gathers struct {
	want, sources, timeout, keys int
	ended                        int // what the function does: 1 panics, 2 exits, 3 delivers once more; or noFunction
	goroutines                   [][]call
}

const noFunction = 7

// call is a step of a program of a future.
type call struct {
	what   string
	source int
	fails  bool
}

func (c call) String() string {
	if c.what != "deliver" && c.what != "post" {
		return c.what
	}
	if c.fails {
		return fmt.Sprintf("%s a failure of %d", c.what, c.source)
	}
	return fmt.Sprintf("%s %d", c.what, c.source)
}

func drawFuture(d *drawer) small {
	g := &gathers{sources: 1 + d.IntN(4), timeout: 1 + d.IntN(2), keys: 1 + d.IntN(2), ended: d.IntN(8)}
	g.want = 1 + d.IntN(g.sources)
	others := []string{"cancel", "wait", "wait", "leave", "advance", "close", "cancelKey", "checkAll"}
	for range 2 + d.IntN(3) {
		var calls []call
		for range 1 + d.IntN(3) {
			c := call{what: "deliver", source: d.IntN(g.sources), fails: d.oneIn(4)}
			switch d.IntN(5) {
			case 0:
				c.what = others[d.IntN(len(others))]
			case 1:
				c.what = "post"
			}
			calls = append(calls, c)
		}
		g.goroutines = append(g.goroutines, calls)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d of %d, timeout %d, %d keys, the function: %d\n", g.want, g.sources, g.timeout, g.keys, g.ended)
	for _, calls := range g.goroutines {
		fmt.Fprintln(&b, " ", calls)
	}
	return small{b.String(), g.setup}
}

// gathered is one run.
type gathered struct {
	*gathers
	p      *purgatory.DelayedOperationPurgatory[int]
	clock  *timer.ManualTimer
	keys   []int
	f      *future.Future[int]
	ctx    context.Context
	leave  context.CancelFunc
	closed bool

	taken    int // bit i: source i
	good     int
	bad      int
	calls    int // of the function
	waiting  int
	verdict  string
	verdicts int
	faults   []error
}

func (g *gathers) setup(spawn func(string, func())) func() error {
	r := &gathered{gathers: g}
	r.ctx, r.leave = context.WithCancel(context.Background())
	var err error
	if r.clock, err = timer.NewManualTimer(timer.WithWheelSize(4)); err != nil {
		panic(err)
	}
	r.p, err = purgatory.New[int]("future", purgatory.WithTimer(r.clock), set("watcherShards", 2), purgatory.WithWorkers(1),
		purgatory.WithPanicHandler(func(v any, stack []byte) {
			if err, ok := v.(error); !ok || !errors.Is(err, errBoom) {
				r.fault("panic: %v\n%s", v, stack)
			}
		}))
	if err != nil {
		panic(err)
	}
	r.keys = keysOf(r.p, 2)[:g.keys]
	condition := future.Quorum(g.want, g.sources)
	switch g.want {
	case g.sources:
		condition = future.All(g.sources)
	case 1:
		condition = future.Any(g.sources)
	}
	if g.ended == noFunction {
		r.f, err = future.Gather[int](r.p, time.Duration(g.timeout)*tick, condition, r.keys...)
	} else {
		r.f, err = future.GatherFunc(r.p, time.Duration(g.timeout)*tick, condition, r.ended, r.keys...)
	}
	if err != nil {
		panic(err)
	}
	for i, calls := range g.goroutines {
		spawn(fmt.Sprint("g", i+1), func() {
			for _, c := range calls {
				r.do(c)
			}
		})
	}
	spawn("last", r.last)
	return func() error { return errors.Join(r.faults...) }
}

func (r *gathered) fault(format string, args ...any) {
	r.faults = append(r.faults, fmt.Errorf(format, args...))
}

func (r *gathered) do(c call) {
	switch c.what {
	case "deliver", "post":
		give := r.f.Deliver
		if c.what == "post" {
			give = r.f.Post
		}
		r.give(give, c.source, c.fails)
	case "cancel":
		r.f.Cancel(errCause)
	case "wait":
		r.wait()
	case "leave":
		r.leave()
	case "advance":
		r.clock.AdvanceClock(tick)
	case "close":
		r.closed = true
		_ = r.p.Close()
	case "cancelKey":
		r.p.CancelForKey(r.keys[len(r.keys)-1], errCause)
	case "checkAll":
		r.p.CheckAndComplete(r.keys...)
	}
}

func (r *gathered) wait() {
	r.waiting++
	defer func() { r.waiting-- }()
	r.same(r.f.Wait(r.ctx))
}

// give delivers, and counts what was taken.
func (r *gathered) give(give func(int, int, error) bool, source int, fails bool) {
	var err error
	if fails {
		err = errCause
	}
	taken := true // also if the function ends the goroutine
	defer func() {
		if taken {
			r.took(source, fails)
		}
	}()
	taken = give(source, source, err)
}

func (r *gathered) took(source int, fails bool) {
	if r.taken>>source&1 == 1 {
		r.fault("a second delivery of source %d was taken", source)
	}
	r.taken |= 1 << source
	if fails {
		r.bad++
	} else {
		r.good++
	}
}

// same checks that all verdicts are the same.
func (r *gathered) same(results []future.Result[int], err error) {
	verdict := fmt.Sprint(results, err)
	if r.verdicts++; r.verdicts > 1 && verdict != r.verdict {
		r.fault("one verdict is %s, another one %s", r.verdict, verdict)
	}
	r.verdict = verdict
}

func (r *gathered) ended(results []future.Result[int], err error) {
	if r.calls++; r.calls > 1 {
		r.fault("the function is called %d times", r.calls)
	}
	r.same(results, err)
	sched.Yield()
	switch r.gathers.ended {
	case 1:
		panic(errBoom)
	case 2:
		runtime.Goexit()
	case 3:
		if r.f != nil && r.f.Deliver(0, 0, nil) {
			r.fault("a delivery was taken after the end")
		}
	}
}

// last judges when nothing can go on, and then lets the timeout pass.
func (r *gathered) last() {
	explore.Settle()
	decided := r.good >= r.want || r.bad > r.sources-r.want
	if done := r.done(); !done && (decided || r.closed || r.clock.Now() >= time.Duration(r.timeout)*tick) {
		r.fault("%d good and %d bad results, closed %v, time %v: and it has not ended", r.good, r.bad, r.closed, r.clock.Now())
	} else if done && r.waiting > 0 {
		r.fault("it has ended, and a Wait has not")
	}
	if r.waiting > 0 && r.ctx.Err() != nil {
		r.fault("the context has ended, and a Wait has not")
	}
	r.clock.AdvanceClock(tick * 10)
	explore.Settle()
	if !r.done() || (r.calls == 1) != (r.gathers.ended != noFunction) || r.waiting > 0 {
		r.fault("after the timeout: ended %v, the function was called %d times, %d wait", r.done(), r.calls, r.waiting)
		return
	}
	results, err := r.f.Wait(context.Background())
	r.same(results, err)
	if len(results) != r.good+r.bad {
		r.fault("%d results were taken, and there are %v", r.good+r.bad, results)
	}
	for _, result := range results {
		if r.taken>>result.From&1 == 0 || result.Value != result.From {
			r.fault("a result that was not taken: %v", result)
		}
	}
	switch {
	case r.good >= r.want:
		if err != nil || r.good > r.want {
			r.fault("%d of %d: %v", r.good, r.want, err)
		}
	case r.bad > r.sources-r.want:
		if !errors.Is(err, future.ErrUnreachable) {
			r.fault("%d have failed: %v", r.bad, err)
		}
	case !errors.Is(err, purgatory.ErrExpired) && !errors.Is(err, purgatory.ErrClosed) && !errors.Is(err, errCause) && !errors.Is(err, context.Canceled) && !errors.Is(err, purgatory.ErrCancelled):
		r.fault("not decided, and the error is %v", err)
	}
	_ = r.p.Close()
	r.p.AdvanceClock(0)
	if s := r.p.Stats(); s.Pending != 0 || s.Watched != 0 || s.Accepted != 1 || r.clock.Pending() != 0 {
		r.fault("left behind: %+v", s)
	}
}

func (r *gathered) done() bool {
	select {
	case <-r.f.Done():
		return true
	default:
		return false
	}
}
