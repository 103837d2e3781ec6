//go:build interleave

package programs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/proof/explore"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/signals"
	"github.com/delayedop/purgatory/timer"
)

// TestRunners runs a signals.Runner on an engine whose every answer the schedule decides: it
// drops hints before the subscription and after a cut, doubles them, overflows, ends its source
// with an error, without one or by a panic, or subscribes again within the source. If the source
// hears itself, the engine may also deliver nothing for a while, and break nothing. Writers raise
// keys and tell the engine, and goroutines wait in one purgatory or in two.
//
//   - No wake-up is lost: when the source is subscribed and the pauses have passed, no wait for a
//     key that was raised is left. There is no audit, which would repair it. The bulk read of
//     WithResync may fail, leave keys unread, or hang, and reads may lag behind hints.
//   - Run returns when its context ends or the error is final, and by then all its goroutines
//     have ended. A second Run at the same time is refused.
func TestRunners(t *testing.T) { runFamily(t, "runner", drawRunner) }

// engines is a program.
type engines struct {
	keys, purgatories int
	lag               time.Duration // of reads behind hints
	resync            bool
	reads             []string // what the bulk reads do, in turn; then they succeed
	ends              []string // how the source ends at its cuts, in turn; then it subscribes again by itself
	itself            bool     // the source hears itself
	queue             int      // hints that the engine keeps for the source; beyond it they are dropped
	writers           [][]call
	waits             []int // keys
	twice             bool  // Run is called a second time meanwhile
}

func drawRunner(d *drawer) small {
	e := &engines{keys: 1 + d.IntN(2), purgatories: 1 + d.IntN(2), queue: 1 + d.IntN(3)}
	if d.oneIn(3) {
		e.lag = 30 * tick
	}
	if e.resync = d.oneIn(2); e.resync {
		for range d.IntN(3) {
			e.reads = append(e.reads, []string{"fails", "leaves one", "panics", "hangs"}[d.IntN(4)])
		}
	}
	e.itself = d.oneIn(2)
	for range d.IntN(3) {
		e.ends = append(e.ends, []string{"error", "nil", "panic", "again"}[d.IntN(4)])
	}
	for range 1 + d.IntN(2) {
		var calls []call
		for range 1 + d.IntN(3) {
			what := []string{"raise", "raise", "hint", "cut", "deafen"}[d.IntN(5)]
			calls = append(calls, call{what: what, source: d.IntN(e.keys)})
		}
		e.writers = append(e.writers, calls)
	}
	for range 1 + d.IntN(3) {
		e.waits = append(e.waits, d.IntN(e.keys))
	}
	e.twice = d.oneIn(3)
	var b strings.Builder
	fmt.Fprintf(&b, "%d keys, %d purgatories, the source hears itself: %v, a queue of %d, reads lag by %v, resync %v: %v, cuts: %v, waits for %v, run twice: %v\n",
		e.keys, e.purgatories, e.itself, e.queue, e.lag, e.resync, e.reads, e.ends, e.waits, e.twice)
	for _, calls := range e.writers {
		b.WriteString(" ")
		for _, c := range calls {
			fmt.Fprintf(&b, " | %s k%d", c.what, c.source)
		}
		b.WriteByte('\n')
	}
	return small{b.String(), e.setup}
}

// engine is one run.
type engine struct {
	*engines
	all    []*purgatory.DelayedOperationPurgatory[int]
	ids    []int // keys, by number; in each purgatory any shard
	raised []time.Time

	subscribed, over, cut bool
	deafUntil             time.Time
	hints                 []int       // key numbers; negative: a probe
	news                  sched.Token // of the source: hints, a cut, an overflow
	inside                int         // sources that run
	nthRead, nthEnd       int

	waiting int
	result  error
	done    bool
	faults  []error
}

func (g *engines) setup(spawn func(string, func())) func() error {
	e := &engine{engines: g, raised: make([]time.Time, g.keys)}
	e.news = sched.NewToken()
	var both []signals.Waiters[int]
	for range g.purgatories {
		clock, err := timer.NewManualTimer(timer.WithWheelSize(4))
		if err != nil {
			panic(err)
		}
		p, err := purgatory.New[int]("runner", purgatory.WithTimer(clock), set("watcherShards", 2), purgatory.WithWorkers(1))
		if err != nil {
			panic(err)
		}
		e.all, both = append(e.all, p), append(both, p)
	}
	for i := range g.keys {
		e.ids = append(e.ids, e.onShard(i))
	}
	options := []signals.Option{signals.WithAudit(0), signals.WithLag(g.lag), signals.WithBackoff(tick, 4*tick), signals.WithResyncLimit(time.Second)}
	if g.resync {
		options = append(options, signals.WithResync(e.read))
	}
	r, err := signals.To(signals.Several(both...), options...)
	if err != nil {
		panic(err)
	}
	ctx, end := context.WithCancel(context.Background())
	spawn("runner", func() { e.run(ctx, r) })
	if g.twice {
		spawn("second", func() { e.run(ctx, r) })
	}
	for i, k := range g.waits {
		spawn(fmt.Sprint("wait", i), func() { e.await(e.all[i%len(e.all)], k) })
	}
	for i, calls := range g.writers {
		spawn(fmt.Sprint("writer", i), func() {
			for _, c := range calls {
				e.write(c)
			}
		})
	}
	spawn("last", func() { e.last(end) })
	return func() error { return errors.Join(e.faults...) }
}

// onShard returns a key that is on the i-th shard of every purgatory.
func (e *engine) onShard(i int) int {
	for key := 1; ; key++ {
		fits := true
		for _, p := range e.all {
			fits = fits && shardOf(p, key, 2) == i
		}
		if fits {
			return key
		}
	}
}

func (e *engine) fault(format string, args ...any) {
	e.faults = append(e.faults, fmt.Errorf(format, args...))
}

// run runs the runner again when a panic of the source has gone through it, as a server does. The
// second of two that run at once is refused.
func (e *engine) run(ctx context.Context, r *signals.Runner[int]) {
	var err error
	for again := true; again; {
		again = false
		func() {
			defer func() {
				if v := recover(); v != nil {
					again = true
				}
			}()
			err = r.Run(ctx, signals.SourceFunc[int](e.source))
		}()
	}
	if !errors.Is(err, signals.ErrRunning) {
		e.result, e.done = err, true
	}
}

// source is the subscription. It is subscribed from the moment at which it says Missed or Subscribed
// at the latest.
func (e *engine) source(ctx context.Context, sink signals.Sink[int]) error {
	if e.inside++; e.inside > 1 {
		e.fault("the source runs twice at once")
	}
	defer func() {
		e.inside--
		e.subscribed = false
	}()
	for {
		sched.Yield()
		e.subscribed, e.cut, e.hints = true, false, nil
		sched.Yield()
		if e.itself {
			sink.Subscribed(signals.Subscription{Probe: e.probe, Every: time.Second, Limit: 3 * time.Second})
		} else {
			sink.Missed(signals.ErrSubscribed)
		}
		for !e.cut {
			if e.over {
				e.over = false
				sink.Missed(signals.ErrOverflow)
			}
			if len(e.hints) > 0 {
				k := e.hints[0]
				e.hints = e.hints[1:]
				if k < 0 {
					sink.Heard(uint64(-k))
					continue
				}
				sink.Changed(e.ids[k], signals.Unknown)
				continue
			}
			if !sched.Either(e.news, ctx.Done()) {
				return ctx.Err()
			}
		}
		how := "again"
		if e.nthEnd < len(e.ends) {
			how = e.ends[e.nthEnd]
			e.nthEnd++
		}
		switch how {
		case "error":
			return errCause
		case "nil":
			return nil
		case "panic":
			panic(errBoom)
		}
	}
}

// write makes a step of a writer.
func (e *engine) write(c call) {
	sched.Yield()
	switch c.what {
	case "raise":
		if e.raised[c.source].IsZero() {
			e.raised[c.source] = sched.Now()
		}
		sched.Yield()
		e.hint(c.source)
	case "hint":
		e.hint(c.source)
	case "cut":
		e.cut, e.subscribed, e.hints = true, false, nil
		e.news.Put()
	case "deafen":
		if e.itself {
			e.deafUntil = sched.Now().Add(5 * time.Second)
		}
	}
}

// probe sends a probe by the way that hints take.
func (e *engine) probe(_ context.Context, n uint64) error {
	sched.Yield()
	if len(e.hints) < e.queue { // otherwise it is lost, and no hint with it
		e.hint(-int(n))
	}
	return nil
}

// hint tells the source, if it is subscribed.
func (e *engine) hint(k int) {
	switch {
	case !e.subscribed || sched.Now().Before(e.deafUntil):
		return
	case len(e.hints) == e.queue:
		e.over = true
	default:
		e.hints = append(e.hints, k)
	}
	e.news.Put()
}

// read is the function of WithResync.
func (e *engine) read(ctx context.Context, keys []int) error {
	how := ""
	if e.nthRead < len(e.reads) {
		how = e.reads[e.nthRead]
		e.nthRead++
	}
	sched.Yield()
	switch how {
	case "fails":
		return errCause
	case "leaves one":
		return signals.UnreadError[int]{keys[0]: errCause}
	case "panics":
		panic(errBoom)
	case "hangs":
		sched.Sleep(10*time.Second, nil, nil, nil) // beyond its context
	}
	return nil
}

// await waits until a key was raised and a read can see it.
func (e *engine) await(p *purgatory.DelayedOperationPurgatory[int], k int) {
	e.waiting++
	defer func() { e.waiting-- }()
	err := p.Await(context.Background(), purgatory.NoTimeout, func() bool {
		sched.Yield()
		at := e.raised[k]
		return !at.IsZero() && sched.Since(at) >= e.lag
	}, e.ids[k])
	if err != nil && !errors.Is(err, purgatory.ErrClosed) {
		e.fault("the wait for k%d ends with %v", k, err)
	}
}

// last judges when all pauses have passed.
func (e *engine) last(end context.CancelFunc) {
	for range 40 {
		explore.Settle()
		sched.Advance(time.Second)
	}
	explore.Settle()
	must := 0
	for _, k := range e.waits {
		if e.raised[k].IsZero() {
			must++
		}
	}
	if e.waiting > must {
		e.fault("a wake-up is lost: %d wait, and %d may", e.waiting, must)
	}
	if !e.subscribed {
		e.fault("the source is not subscribed")
	}
	sched.Yield()
	end()
	explore.Settle()
	if !e.done || !errors.Is(e.result, context.Canceled) || e.inside > 0 {
		e.fault("the context has ended: Run has returned: %v, with %v, and %d sources run", e.done, e.result, e.inside)
	}
	for _, p := range e.all {
		_ = p.Close()
	}
}
