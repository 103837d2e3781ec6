//go:build interleave

package interleave

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/delayedop/purgatory/future"
	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/queue"
	"github.com/delayedop/purgatory/signals"
	"github.com/delayedop/purgatory/timer"
	"github.com/delayedop/purgatory/watermark"
)

// observed is one run with a third party: verbs end something, and an observer that sees its end acts at once.
type observed struct {
	verbs map[string]func()
	ended func() bool  // what the observer polls
	act   func() error // what it does when that is so, and what must be true by then
}

// observers are made anew for each run.
var observers = map[string]func() observed{
	// From its final outcome on, an operation takes no place, and waits under none of its keys.
	"operation": func() observed {
		e := newEnv(2, []bool{true, false}, false, 1)
		must(e.register(e.op))
		return observed{
			map[string]func(){
				"check": func() { check(0)(e) }, "signal": func() { signal(0)(e) }, "force": func() { force(e) }, "cancel": func() { cancel(e) },
				"cancelkey": func() { cancelForKey(e) }, "expire": func() { expire(e) },
			},
			func() bool { return e.op.Outcome() != operation.Pending },
			func() error {
				if s := e.p.Stats(); s.Pending > 0 || e.p.Waiting(e.keys[0])+e.p.Waiting(e.keys[1]) > 0 {
					return fmt.Errorf("%d are pending, %d and %d wait", s.Pending, e.p.Waiting(e.keys[0]), e.p.Waiting(e.keys[1]))
				}
				if cause := e.op.Cause(); (cause != nil) != (e.op.Outcome() == operation.Cancelled) || cause != nil && !errors.Is(cause, errCause) && !errors.Is(cause, context.Canceled) {
					return fmt.Errorf("%v, cause %v", e.op.Outcome(), cause)
				}
				_, err := e.p.TryCompleteElseWatch(&op{e: e, keys: e.keys, want: []bool{false, true}}, timeout, e.keys...)
				return err
			},
		}
	},
	// So it is in a timer that has room for one.
	"operation of a full timer": func() observed {
		clock := newClock(1)
		p, err := purgatory.New[int]("observed", purgatory.WithTimer(clock), purgatory.WithWorkers(1))
		must(err)
		yes := false
		o := new(light)
		o.ready = func() bool { return yes }
		_, err = p.TryCompleteElseWatch(o, timeout, 1)
		must(err)
		return observed{
			map[string]func(){
				"check": func() { yes = true; p.CheckAndComplete(1) }, "force": func() { p.ForceComplete(o) }, "cancelkey": func() { p.CancelForKey(1, errCause) },
				"expire": func() { p.AdvanceClock(timeout) },
			},
			func() bool { return o.Outcome() != operation.Pending },
			func() error {
				_, err := p.TryCompleteElseWatch(&light{ready: func() bool { return false }}, timeout, 1)
				return err
			},
		}
	},
	// Who sees that a purgatory is closed is refused, and its Shutdown has nobody to wait for.
	"closed purgatory": func() observed {
		p, _ := lightPurgatory()
		return observed{
			map[string]func(){"close": func() { _ = p.Close() }, "shutdown": func() { _ = p.Shutdown(context.Background()) }},
			p.Closed,
			func() error {
				if _, err := p.TryCompleteElseWatch(&light{ready: func() bool { return true }}, timeout, 1); !errors.Is(err, purgatory.ErrClosed) {
					return fmt.Errorf("registered: %v", err)
				}
				return p.Shutdown(context.Background())
			},
		}
	},
	"wait of a purgatory": func() observed {
		p, _ := lightPurgatory()
		yes := false
		w, err := p.StartWait(timeout, func() bool { return yes }, 1)
		must(err)
		return observed{
			map[string]func(){"check": func() { yes = true; p.CheckAndComplete(1) }, "stop": func() { w.Stop() }, "expire": func() { p.AdvanceClock(timeout) }},
			func() bool { return sched.Closed(w.Done()) },
			func() error {
				if errors.Is(w.Err(), purgatory.ErrPending) || p.NumDelayed() > 0 || w.Stop() {
					return fmt.Errorf("%v, %d are pending", w.Err(), p.NumDelayed())
				}
				return nil
			},
		}
	},
	"wait of a watermark": func() observed {
		p, _ := lightPurgatory()
		w := watermark.New(p, 1, 0)
		wait, err := w.StartWait(6)
		must(err)
		return observed{
			map[string]func(){"advance": func() { w.Advance(7) }, "close": func() { w.Close(errCause) }, "cancelkey": func() { p.CancelForKey(1, errCause) }},
			func() bool { return sched.Closed(wait.Done()) },
			func() error {
				s := w.Stats()
				if w.Waiting()+s.Waiting > 0 || s.Served+s.Cancelled != 1 || errors.Is(wait.Err(), purgatory.ErrPending) || wait.Stop() {
					return fmt.Errorf("%d wait, %+v, %v", w.Waiting(), s, wait.Err())
				}
				return nil
			},
		}
	},
	"position of a watermark": func() observed {
		p, _ := lightPurgatory()
		w := watermark.New(p, 1, 0)
		return observed{
			map[string]func(){"advance": func() { w.Advance(7) }},
			func() bool { return w.Position() == 7 },
			func() error { return w.Await(context.Background(), 0, 7) },
		}
	},
	"closed watermark": func() observed {
		p, _ := lightPurgatory()
		w := watermark.New(p, 1, 0)
		return observed{
			map[string]func(){"close": func() { w.Close(errCause) }},
			func() bool { return !errors.Is(w.Await(context.Background(), 0, 1), purgatory.ErrExpired) },
			func() error {
				if _, err := w.StartWait(1); w.Err() != errCause || err != errCause { //nolint:errorlint // the very cause
					return fmt.Errorf("%v, %v", w.Err(), err)
				}
				return nil
			},
		}
	},
	// A future that has ended waits nowhere, takes nothing, and has its verdict, which stays.
	"future": func() observed {
		p, _ := lightPurgatory()
		keys := distinctShards(p, 2)
		f, err := future.Gather[int](p, timeout, future.Quorum(2, 3), keys...)
		must(err)
		f.Deliver(0, 7, nil)
		return observed{
			map[string]func(){
				"deliver": func() { f.Deliver(1, 8, nil) }, "post": func() { f.Post(1, 8, nil) }, "fail": func() { f.Deliver(1, 8, errCause); f.Deliver(2, 9, errCause) },
				"cancel": func() { f.Cancel(errCause) }, "cancelkey": func() { p.CancelForKey(keys[1], errCause) },
				"expire": func() { p.AdvanceClock(timeout) }, "close": func() { _ = p.Close() },
			},
			func() bool { return sched.Closed(f.Done()) },
			func() error {
				if s := p.Stats(); s.Pending > 0 || p.Waiting(keys[0])+p.Waiting(keys[1]) > 0 || f.Deliver(2, 0, nil) || f.Post(1, 0, nil) {
					return fmt.Errorf("%+v", s)
				}
				f.Cancel(errors.New("too late"))
				results, err := f.Wait(context.Background())
				if len(results) == 0 || (len(results) == 2 && results[1].Err == nil) != (err == nil) {
					return fmt.Errorf("%v, %w", results, err)
				}
				if again, same := f.Wait(context.Background()); len(again) != len(results) || same != err { //nolint:errorlint // the very error
					return fmt.Errorf("%v, %v, then %v, %v", results, err, again, same) //nolint:errorlint // both are shown
				}
				return nil
			},
		}
	},
	// A request that has ended takes no place in its line.
	"request of a queue": func() observed {
		clock := newClock(0)
		q, err := queue.New[int](queue.WithTimer(clock), queue.WithMaxWaiting(1))
		must(err)
		w, err := q.Start(timeout, nil)
		must(err)
		return observed{
			map[string]func(){
				"put": func() { must(q.Put(1)) }, "stop": func() { w.Stop() }, "expire": func() { clock.AdvanceClock(timeout) },
				"hand": func() { _, _ = q.Hand(1) },
			},
			func() bool { return sched.Closed(w.Done()) },
			func() error {
				if s := q.Stats(); s.Waiting > 0 || s.Served+s.Left+s.Expired != 1 || w.Stop() {
					return fmt.Errorf("%+v", s)
				}
				_, err := q.Start(timeout, nil)
				return err
			},
		}
	},
	// So it is in a timer that has room for one.
	"request of a full timer": func() observed {
		clock := newClock(1)
		q, err := queue.New[int](queue.WithTimer(clock))
		must(err)
		w, err := q.Start(timeout, nil)
		must(err)
		return observed{
			map[string]func(){
				"put": func() { must(q.Put(1)) }, "stop": func() { w.Stop() }, "expire": func() { clock.AdvanceClock(timeout) },
				"hand": func() { _, _ = q.Hand(1) }, "close": func() { q.Close(nil) },
			},
			func() bool { return sched.Closed(w.Done()) },
			func() error {
				if n := clock.Pending(); n > 0 {
					return fmt.Errorf("%d are pending", n)
				}
				_, err := clock.AfterFunc(timeout, func() {})
				return err
			},
		}
	},
	// Who sees in a picture of the queue that nobody waits finds a place in its line.
	"line of a queue": func() observed {
		q, clock := placeForOne(0)
		w, err := q.Start(timeout, nil)
		must(err)
		return observed{
			endsOf(q, clock, w),
			func() bool { return q.Stats().Waiting == 0 },
			func() error {
				if s := q.Stats(); s.Served+s.Left+s.Expired != 2 || s.Handed != s.Served || w.Stop() {
					return fmt.Errorf("%+v", s)
				}
				if _, err := q.Take(context.Background(), 0); !errors.Is(err, queue.ErrExpired) && err != nil {
					return err
				}
				_, err := q.Start(timeout, nil)
				return err
			},
		}
	},
	// Whose Result has returned has left the line and the timer, and its Result stays.
	"result of a request": func() observed {
		q, clock := placeForOne(1)
		w, err := q.Start(timeout, nil)
		must(err)
		return observed{
			endsOf(q, clock, w),
			func() bool { _, _ = w.Result(); return true },
			func() error {
				one, err := w.Result()
				two, again := w.Result()
				if n := clock.Pending(); n > 0 || one != two || err != again || !sched.Closed(w.Done()) { //nolint:errorlint // the very error
					return fmt.Errorf("%d are pending; %v, %v, then %v, %v", n, one, err, two, again)
				}
				_, err = q.Start(timeout, nil)
				return err
			},
		}
	},
	// So has the one whose Take has returned.
	"take of a queue": func() observed {
		q, clock := placeForOne(1)
		ctx, cancel := context.WithCancel(context.Background())
		verbs := endsOf(q, clock, nil)
		verbs["cancel"] = cancel
		return observed{
			verbs,
			func() bool { // it would wait for ever if the verb came before it, or for somebody else
				if s := q.Stats(); s.Put+s.Back > 1 || clock.Now() > 0 || ctx.Err() != nil {
					return false
				}
				returned := make(chan struct{})
				sched.Go(func() { sched.Pause(0, returned); clock.AdvanceClock(timeout) })
				defer close(returned)
				_, _ = q.Take(ctx, timeout)
				return true
			},
			func() error {
				if n, s := clock.Pending(), q.Stats(); n > 0 || s.Waiting > 0 {
					return fmt.Errorf("%d are pending, %+v", n, s)
				}
				_, err := q.Start(timeout, nil)
				return err
			},
		}
	},
	// A callback may start the next request: the one that has ended takes no place.
	"callback of a queue": func() observed {
		q, clock := placeForOne(1)
		var next error
		called := false
		w, err := q.Start(timeout, func(int, error) { _, next = q.Start(timeout, nil); called = true })
		must(err)
		verbs := endsOf(q, clock, w)
		for name, end := range verbs {
			verbs[name] = func() { end(); clock.AdvanceClock(0) }
		}
		return observed{verbs, func() bool { sched.Yield(); return called }, func() error { return next }}
	},
	// Who is refused by a queue that is closed finds nobody in it.
	"queue that is closed": func() observed {
		clock := newClock(0)
		q, err := queue.New[int](queue.WithTimer(clock))
		must(err)
		w, err := q.Start(timeout, nil)
		must(err)
		ended, cancel := context.WithCancelCause(context.Background())
		cancel(errCause)
		return observed{
			map[string]func(){"close": func() { q.Close(nil) }, "shutdown": func() { _ = q.Shutdown(ended) }},
			func() bool { return errors.Is(q.Put(1), queue.ErrClosed) },
			func() error {
				if s := q.Stats(); s.Waiting > 0 || w.Stop() {
					return fmt.Errorf("%+v", s)
				}
				if _, err := q.Start(timeout, nil); !errors.Is(err, queue.ErrClosed) {
					return fmt.Errorf("started: %v", err)
				}
				return q.Shutdown(ended)
			},
		}
	},
	// On a page, an operation is as old as it is from the beginning on.
	"page": func() observed {
		p, clock := lightPurgatory()
		clock.AdvanceClock(time.Hour)
		keys := distinctShards(p, 2)
		var shown []purgatory.OperationReport
		return observed{
			map[string]func(){
				"register": func() {
					_, err := p.TryCompleteElseWatch(&light{ready: func() bool { return false }}, timeout, keys...)
					must(err)
				},
				"wait": func() {
					_, err := p.StartWait(timeout, func() bool { return false }, keys...)
					must(err)
				},
			},
			func() bool { shown = p.Inspect(1).Oldest; return len(shown) > 0 },
			func() error {
				if o := shown[0]; o.Age != 0 || o.Left != timeout {
					return fmt.Errorf("%+v", o)
				}
				return nil
			},
		}
	},
	// One that ends meanwhile is shown as it was, or not at all; what was due at its end may have left the timer.
	"page of what ends": func() observed {
		e := newEnv(2, []bool{true, false}, false, 0)
		must(e.register(e.op))
		var shown []purgatory.OperationReport
		return observed{
			map[string]func(){
				"check": func() { check(0)(e) }, "force": func() { force(e) }, "cancel": func() { cancel(e) }, "cancelkey": func() { cancelForKey(e) },
				"expire": func() { expire(e) }, "close": func() { _ = e.p.Close() },
			},
			func() bool { shown = e.p.Inspect(2).Oldest; return true },
			func() error {
				for _, o := range shown {
					if len(shown) > 1 || o.Age < 0 || o.Left != purgatory.NoTimeout && o.Age+o.Left != timeout {
						return fmt.Errorf("%+v", shown)
					}
				}
				return nil
			},
		}
	},
	// What is part of a number is never more than that.
	"hint of a runner": func() observed {
		p, _ := lightPurgatory()
		r, err := signals.To(p)
		must(err)
		return observed{
			map[string]func(){"nobody waits": func() { r.Changed(1, signals.Unknown); r.Changed(2, signals.Unknown) }},
			func() bool { return true },
			func() error {
				if s := r.Stats(); s.Unawaited > s.Hints || s.Failures > s.BulkReads || s.SinceLastWord < 0 {
					return fmt.Errorf("%+v", s)
				}
				return nil
			},
		}
	},
	// The state of a handle is that of its timer, too.
	"handle": func() observed {
		clock := newClock(1)
		h, err := clock.AfterFunc(timeout, func() {})
		must(err)
		return observed{
			map[string]func(){"stop": func() { h.Stop() }, "expire": func() { clock.AdvanceClock(timeout) }},
			func() bool { return h.Expired() || h.Cancelled() },
			func() error {
				if n := clock.Pending(); n > 0 || h.Stop() {
					return fmt.Errorf("%d are pending", n)
				}
				_, err := clock.AfterFunc(timeout, func() {})
				return err
			},
		}
	},
}

// placeForOne is a queue in whose line is a place for one, and its clock, which has room for so many. Somebody has taken an item.
func placeForOne(room int) (*queue.Queue[int], *timer.ManualTimer) {
	clock := newClock(room)
	q, err := queue.New[int](queue.WithTimer(clock), queue.WithMaxWaiting(1))
	must(err)
	must(q.Put(1))
	_, err = q.Take(context.Background(), 0)
	must(err)
	return q, clock
}

// endsOf are the verbs that end a request of q.
func endsOf(q *queue.Queue[int], clock *timer.ManualTimer, w *queue.Waiter[int]) map[string]func() {
	verbs := map[string]func(){
		"put": func() { must(q.Put(1)) }, "hand": func() { _, _ = q.Hand(1) }, "expire": func() { clock.AdvanceClock(timeout) },
		"putback": func() { must(q.PutBack(1)) },
	}
	if w != nil {
		verbs["stop"] = func() { w.Stop() }
	}
	return verbs
}

// light is an operation without an env.
type light struct {
	operation.DelayedOperation
	ready func() bool
}

func (l *light) TryComplete() bool { return l.ready() }
func (l *light) OnComplete()       {}
func (l *light) OnExpiration()     {}

// A third party sees the end of something, or its new state, and acts at once, before the goroutine that has made it so does anything
// more. In every interleaving it finds what the documentation says is true by then.
func TestAThirdPartyThatPollsAndActs(t *testing.T) {
	for _, name := range slices.Sorted(keysOf(observers)) {
		var verbs []string
		run(t, name, 0, func(spawn func(string, func())) func() error {
			verbs = slices.Sorted(keysOf(observers[name]().verbs))
			spawn("nothing", func() {})
			return func() error { return nil }
		})
		for _, verb := range verbs {
			seen := 0
			exploreOne(t, strings.ReplaceAll(name, " ", "-")+"/"+verb, min(*pairBound, 2), func(spawn func(string, func())) func() error {
				o := observers[name]()
				var found error
				spawn(verb, o.verbs[verb])
				spawn("observer", func() {
					if o.ended() {
						seen++
						found = o.act()
					}
				})
				return func() error { return found }
			})
			if *only == "" && nth == 1 && seen == 0 {
				t.Errorf("%s of a %s: nobody has seen the end", verb, name)
			}
		}
	}
}

// Two call Run of a Runner: one source runs, until the other call has been refused.
func TestOneSourceRunsAtATime(t *testing.T) {
	exploreOne(t, "two-runs", 1, func(spawn func(string, func())) func() error {
		p, _ := lightPurgatory()
		r, err := signals.To(p)
		must(err)
		ended, cancel := context.WithCancelCause(context.Background())
		cancel(errCause)
		refused, runs := make(chan struct{}), 0
		source := signals.SourceFunc[int](func(context.Context, signals.Sink[int]) error {
			runs++
			sched.Receive(refused) // two sources would wait for ever
			return nil
		})
		for i := range 2 {
			spawn(fmt.Sprint("run ", i), func() {
				if err := r.Run(ended, source); errors.Is(err, signals.ErrRunning) {
					close(refused)
				}
			})
		}
		return func() error {
			if runs != 1 || r.Stats().Running {
				return fmt.Errorf("%d sources, and one still runs: %v", runs, r.Stats().Running)
			}
			return nil
		}
	})
}

// closings counts the records of a purgatory that has closed.
type closings struct {
	slog.Handler
	n *int
}

func (c closings) Enabled(context.Context, slog.Level) bool { return true }
func (c closings) WithAttrs([]slog.Attr) slog.Handler       { return c }

func (c closings) Handle(_ context.Context, r slog.Record) error {
	if r.Message == purgatory.EventClosed {
		*c.n++
	}
	return nil
}

// Two close a purgatory, each in its own way: one of them closes it, and it stays closed.
func TestAPurgatoryIsClosedOnce(t *testing.T) {
	for name, ways := range map[string][2]bool{"close+close": {}, "close+shutdown": {false, true}, "shutdown+shutdown": {true, true}} {
		exploreOne(t, "once-"+name, 1, func(spawn func(string, func())) func() error {
			n := 0
			p, err := purgatory.New[int]("closed", purgatory.WithTimer(newClock(0)), purgatory.WithWorkers(1), purgatory.WithLogger(slog.New(closings{slog.DiscardHandler, &n})))
			must(err)
			ended, cancel := context.WithCancelCause(context.Background())
			cancel(errCause)
			for i, waits := range ways {
				spawn(fmt.Sprint(i), func() {
					if waits {
						_ = p.Shutdown(ended)
					} else {
						_ = p.Close()
					}
				})
			}
			return func() error {
				if n != 1 || !p.Closed() {
					return fmt.Errorf("closed %d times, closed now: %v", n, p.Closed())
				}
				return nil
			}
		})
	}
}
