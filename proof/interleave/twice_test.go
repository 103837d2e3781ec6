//go:build interleave

package interleave

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/delayedop/purgatory/future"
	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/proof/explore"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/queue"
	"github.com/delayedop/purgatory/reaper"
	"github.com/delayedop/purgatory/signals"
	"github.com/delayedop/purgatory/timer"
	"github.com/delayedop/purgatory/watermark"
)

// object is what two goroutines call at once: a value, what can be seen of it when they have returned, and what others may do meanwhile.
type object struct {
	value any
	look  func() string
	also  map[string]func()
	entry *timer.TaskEntry // for methods that take one
}

// left are the methods that TestTwoVerbsAtOnce does not call: those that wait for another verb, or return what a loop goes over.
var left = map[string]string{
	"Waiter.Result":          "it waits until another verb has ended the request",
	"ExpirationReaper.Ended": "it changes nothing, and what it says depends on a third goroutine",
}

// also are results that one after the other do not have, by object and verbs: beginnings of what is seen.
var also = map[string][]string{
	// Both contexts have ended, and each call has waited before the other one closes the queue.
	"queue with waiters: Shutdown+Shutdown": {"[error 0 error 1], then"},
	"queue with waiters: Close+Shutdown":    {"[0 of them error 1], then"},
	// The second adds its distance to that of the first.
	"manual timer: AdvanceClock+AdvanceClock":           {"[false true], then 25ms 0 1"},
	"manual timer: AdvanceClock+AdvanceClockUntil":      {"[false true], then 25ms 0 1"},
	"manual timer: AdvanceClockUntil+AdvanceClockUntil": {"[false true], then 25ms 0 1"},
	// The clock has moved before the new deadline is set, or since it was computed, and the function has not run yet, or runs.
	"handle that waits: Extend+advance":   {"[true ], then false false 0"},
	"handle that waits: Reset+advance":    {"[true, <nil> ], then false false 0"},
	"handle that repeats: Extend+advance": {"[true ], then false false ", "[false ], then false false 1"},
	"handle that repeats: Reset+advance":  {"[true, <nil> ], then false false ", "[false, <nil> ], then false false 1"},
	// The position is reached, and the one who stops has left, before the wait has ended.
	"wait of a watermark: Stop+advance": {"[true ], then 0 <nil> <nil> {0 0s 2 "},
	// The context has ended, and the position is reached before the one who comes has looked at it for the last time.
	"watermark that is waited for: Advance+Await": {"[ <nil>], then 7 0 <nil> <nil> {0 0s 2 "},
	// The check of Advance comes after Recede.
	"wait of a watermark: advance+recede":          {"[ ], then 2 purgatory: pending"},
	"watermark that is waited for: Advance+Recede": {"[ ], then 5 1 <nil> purgatory: pending"},
}

// A clock moves step by step: what these say meanwhile is true of one moment.
var (
	moving = []string{"AdvanceClock", "AdvanceClockUntil", "advance", "expire"}
	saying = []string{"Now", "Here", "Due", "Stats"}
)

// objects are made anew for each run. Each is in a state in which its verbs have something to do.
var objects = map[string]func() object{
	"watermark that is waited for": func() object {
		p, clock := lightPurgatory()
		w := watermark.New(p, 1, 0)
		six, err := w.StartWait(6)
		must(err)
		return object{w, func() string {
			return fmt.Sprint(w.Position(), w.Waiting(), w.Err(), six.Err(), watermarkStats(w), clock.Now(), p.NumDelayed())
		}, map[string]func(){"cancel for key": func() { p.CancelForKey(1, errCause) }, "close": func() { _ = p.Close() }}, nil}
	},
	"watermark that has risen": func() object {
		p, _ := lightPurgatory()
		w := watermark.New(p, 1, 0)
		six, err := w.StartWait(9)
		must(err)
		w.Advance(6)
		return object{w, func() string {
			return fmt.Sprint(w.Position(), w.Waiting(), w.Err(), six.Err(), watermarkStats(w), p.NumDelayed())
		}, nil, nil}
	},
	"wait of a watermark": func() object {
		p, _ := lightPurgatory()
		w := watermark.New(p, 1, 0)
		wait, err := w.StartWait(6)
		must(err)
		other, err := w.StartWait(6)
		must(err)
		return object{wait, func() string {
			return fmt.Sprint(w.Waiting(), wait.Err(), other.Err(), watermarkStats(w), p.NumDelayed())
		}, map[string]func(){
			"advance": func() { w.Advance(7) }, "recede": func() { w.Recede(-1) }, "close": func() { w.Close(errCause) },
			"cancel for key": func() { p.CancelForKey(1, errCause) }, "close the purgatory": func() { _ = p.Close() },
		}, nil}
	},
	"wait of a purgatory": func() object {
		p, clock := lightPurgatory()
		wait, err := p.StartWait(timeout, func() bool { return false }, 1)
		must(err)
		return object{wait, func() string { return fmt.Sprint(wait.Err(), p.NumDelayed(), p.Stats().Cancelled, clock.Pending()) }, map[string]func(){
			"expire": func() { clock.AdvanceClock(timeout) }, "cancel for key": func() { p.CancelForKey(1, errCause) }, "close": func() { _ = p.Close() },
		}, nil}
	},
	"queue with waiters": func() object {
		q, clock := lightQueue[int]()
		one, err := q.Start(timeout, nil)
		must(err)
		two, err := q.Start(timeout, nil)
		must(err)
		return object{q, func() string { return fmt.Sprint(ends(one), ends(two), q.Stats(), clock.Pending()) }, map[string]func(){
			"stop": func() { one.Stop() },
		}, nil}
	},
	"queue with items": func() object {
		q, clock := lightQueue[int]()
		for item := range 3 {
			must(q.Put(item))
		}
		item, err := q.Take(context.Background(), 0)
		must(err)
		return object{q, func() string { return fmt.Sprint(item, q.Stats(), clock.Pending()) }, nil, nil}
	},
	"request of a queue": func() object {
		q, clock := lightQueue[int]()
		w, err := q.Start(timeout, nil)
		must(err)
		return object{w, func() string { return fmt.Sprint(ends(w), q.Stats(), clock.Pending()) }, map[string]func(){
			"put": func() { _ = q.Put(1) }, "hand": func() { _, _ = q.Hand(1) }, "expire": func() { clock.AdvanceClock(timeout) },
			"close": func() { q.Close(errCause) },
		}, nil}
	},
	"handle that waits":    func() object { return handle(func(*timer.ManualTimer, *timer.Handle) {}) },
	"handle that has run":  func() object { return handle(func(t *timer.ManualTimer, _ *timer.Handle) { t.AdvanceClock(timeout) }) },
	"handle that stopped":  func() object { return handle(func(_ *timer.ManualTimer, h *timer.Handle) { h.Stop() }) },
	"handle that repeats":  func() object { return periodic(func(*timer.Handle) {}) },
	"handle that repeated": func() object { return periodic(func(h *timer.Handle) { h.Stop() }) },
	"manual timer": func() object {
		clock := newClock(3)
		c := &counted{s: &stopped{}}
		c.Bind(c)
		must(clock.AddAt(&c.TaskEntry, 0, timeout))
		return object{clock, func() string {
			s := fmt.Sprint(clock.Now(), clock.Pending(), c.ran)
			for n := 0; ; n++ { // how many places are free
				if _, err := clock.AfterFunc(timeout, func() {}); err != nil {
					s = fmt.Sprint(s, n, err)
					break
				}
			}
			clock.AdvanceClock(10 * timeout)
			return fmt.Sprint(s, clock.Pending(), c.ran)
		}, nil, &c.TaskEntry}
	},
	"entry that is new": func() object {
		clock, c := inOneStep(), &counted{s: &stopped{}}
		c.Bind(c)
		return object{clock, func() string {
			s := fmt.Sprint(clock.Now(), clock.Pending())
			clock.AdvanceClock(10 * timeout)
			return fmt.Sprint(s, clock.Pending(), c.ran)
		}, nil, &c.TaskEntry}
	},
	"future": func() object {
		p, clock := lightPurgatory()
		keys := distinctShards(p, 2)
		f, err := future.Gather[int](p, timeout, future.Quorum(2, 12), keys...)
		must(err)
		f.Deliver(0, 7, nil)
		return object{f, func() string {
			s := fmt.Sprint(sched.Closed(f.Done()), p.NumDelayed(), p.Waiting(keys[1]), clock.Pending())
			f.Cancel(errors.New("at last"))
			results, err := f.Wait(context.Background())
			return fmt.Sprint(s, results, err)
		}, map[string]func(){
			"deliver": func() { f.Deliver(1, 8, nil) }, "deliver another": func() { f.Deliver(2, 9, nil) }, "post": func() { f.Post(1, 10, nil) },
			"expire": func() { clock.AdvanceClock(timeout) }, "cancel for key": func() { p.CancelForKey(keys[1], errCause) }, "close": func() { _ = p.Close() },
		}, nil}
	},
	"runner": func() object {
		w := &oneWaits{}
		r, err := signals.To[int](w, signals.WithLag(time.Second))
		must(err)
		return object{r, func() string { return fmt.Sprintf("%d, %+v", w.signals, r.Stats()) }, nil, nil}
	},
	"reaper": func() object {
		var r *reaper.ExpirationReaper
		r = reaper.Start(func(<-chan struct{}, time.Duration) bool { return false }, timeout, func() { r.Stop() })
		return object{r, func() string { return fmt.Sprint(r.Ended()) }, nil, nil}
	},
}

// Two goroutines call two verbs at once, or the same one, each with arguments of its own. In every interleaving, what they return, and what
// can be seen afterwards, is as if one had called its verb after the other. The verbs are the methods of the types, so that a new one is
// among them, and what an object has besides.
func TestTwoVerbsAtOnce(t *testing.T) {
	for _, name := range slices.Sorted(keysOf(objects)) {
		var verbs []string
		run(t, name, 0, func(spawn func(string, func())) func() error { // the types' methods are the same in each run
			o := objects[name]()
			defer o.look()
			kind := reflect.TypeOf(o.value)
			typeName, _, _ := strings.Cut(kind.Elem().Name(), "[")
			for i := range kind.NumMethod() {
				if verb := kind.Method(i).Name; left[typeName+"."+verb] == "" {
					verbs = append(verbs, verb)
				}
			}
			verbs = append(verbs, slices.Sorted(keysOf(o.also))...)
			spawn("nothing", func() {})
			return func() error { return nil }
		})
		for i, a := range verbs {
			for _, b := range verbs[i:] {
				if slices.Contains(moving, a) && slices.Contains(saying, b) || slices.Contains(saying, a) && slices.Contains(moving, b) {
					continue
				}
				twoAtOnce(t, name, [2]string{a, b})
			}
		}
	}
}

func twoAtOnce(t *testing.T, name string, verbs [2]string) {
	t.Helper()
	allowed := map[string]bool{}
	pair := func(together bool, first int, see func(string) error) func(spawn func(string, func())) func() error {
		return func(spawn func(string, func())) func() error {
			o := objects[name]()
			var results [2]string
			do := func(i int) { results[i] = call(t, o, verbs[i], i) }
			if together {
				spawn(verbs[0], func() { do(0) })
				spawn(verbs[1], func() { do(1) })
			} else {
				spawn("one after the other", func() { do(first); do(1 - first) })
			}
			return func() error { return see(fmt.Sprintf("%v, then %s", results, o.look())) }
		}
	}
	both := verbs[0] + "+" + verbs[1]
	for first := range 2 {
		run(t, name+": "+both, 0, pair(false, first, func(seen string) error { allowed[seen] = true; return nil }))
	}
	bound := min(*pairBound, 2)
	if name == "future" { // which has workers, too
		bound = 1
	}
	exploreOne(t, strings.ReplaceAll(name, " ", "-")+"/"+both, bound, pair(true, 0, func(seen string) error {
		begins := func(prefix string) bool { return strings.HasPrefix(seen, prefix) }
		if !allowed[seen] && !slices.ContainsFunc(also[name+": "+both], begins) {
			return fmt.Errorf("%s at once on a %s: %s\none after the other: %q", both, name, seen, slices.Sorted(keysOf(allowed)))
		}
		return nil
	}))
}

func run(t *testing.T, name string, bound int, setup func(spawn func(string, func())) func() error) {
	t.Helper()
	if r := (explore.Exploration{Setup: setup, Preemptions: bound, Limit: 1}).Explore(); r.Failure != nil {
		t.Errorf("%s: %v", name, r.Failure)
	}
}

// errs are the errors that the first and the second call are given.
var errs = [2]error{errors.New("error 0"), errors.New("error 1")}

// call calls a method with arguments for the i-th of two calls, and returns its results; or does what the object has besides.
func call(t *testing.T, o object, name string, i int) string {
	if do := o.also[name]; do != nil {
		do()
		return ""
	}
	method := reflect.ValueOf(o.value).MethodByName(name)
	var args []reflect.Value
	for n := range method.Type().NumIn() {
		var arg any
		switch in := method.Type().In(n); {
		case method.Type().IsVariadic() && n == method.Type().NumIn()-1:
			continue
		case in == reflect.TypeFor[context.Context]():
			ctx, cancel := context.WithCancelCause(context.Background())
			cancel(errs[i])
			arg = ctx
		case in == reflect.TypeFor[error]():
			arg = errs[i]
		case in == reflect.TypeFor[time.Duration]():
			arg = []time.Duration{2 * timeout, timeout / 2}[i]
		case in == reflect.TypeFor[uint64]():
			arg = uint64(i)
		case in == reflect.TypeFor[signals.Subscription](), in == reflect.TypeFor[signals.Source[int]]():
			args = append(args, reflect.Zero(in))
			continue
		case in == reflect.TypeFor[int64]():
			arg = []int64{7, 5}[i]
		case in == reflect.TypeFor[int]():
			arg = 10 + i
		case in == reflect.TypeFor[*timer.TaskEntry]():
			arg = o.entry
		case in == reflect.TypeFor[[]*timer.TaskEntry]():
			arg = []*timer.TaskEntry{o.entry}
		case in == reflect.TypeFor[func()]():
			arg = func() {}
		case in.Kind() == reflect.Func || in.Kind() == reflect.Chan:
			args = append(args, reflect.Zero(in))
			continue
		default:
			t.Errorf("%s takes a %v: say what to call it with", name, in)
			return ""
		}
		args = append(args, reflect.ValueOf(arg))
	}
	var out []string
	for _, r := range method.Call(args) {
		switch r.Kind() {
		case reflect.Chan:
			out = append(out, "a channel")
		case reflect.Pointer:
			out = append(out, fmt.Sprint("a pointer, nil: ", r.IsNil()))
		case reflect.Slice:
			out = append(out, fmt.Sprint(r.Len(), " of them"))
		default:
			out = append(out, fmt.Sprint(r.Interface()))
		}
	}
	return strings.Join(out, ", ")
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func keysOf[V any](m map[string]V) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func lightPurgatory() (*purgatory.Purgatory[int], *timer.ManualTimer) {
	clock := newClock(0)
	p, err := purgatory.New[int]("twice", purgatory.WithTimer(clock), purgatory.WithWorkers(1))
	must(err)
	return p, clock
}

func lightQueue[T any]() (*queue.Queue[T], *timer.ManualTimer) {
	clock := newClock(0)
	q, err := queue.New[T](queue.WithTimer(clock), queue.WithMaxItems(4), queue.WithMaxWaiting(4))
	must(err)
	return q, clock
}

// oneWaits counts the signals of a runner. Somebody waits for 10.
type oneWaits struct{ signals int }

func (w *oneWaits) Keys() iter.Seq[int] { return slices.Values([]int{10}) }

func (w *oneWaits) SignalUpTo(key int, _ int64) bool {
	w.signals++
	return key == 10
}

func watermarkStats(w *watermark.Watermark[int]) watermark.Stats {
	s := w.Stats()
	s.Oldest = 0 // on the system's clock
	return s
}

// ends returns how a request has ended.
func ends(w *queue.Waiter[int]) string {
	if !sched.Closed(w.Done()) {
		return "waits"
	}
	return fmt.Sprint(w.Result())
}

// inOneStep returns a clock that goes to the timeout in one step.
func inOneStep() *timer.ManualTimer {
	clock, err := timer.NewManualTimer()
	must(err)
	return clock
}

func handle(prepare func(*timer.ManualTimer, *timer.Handle)) object {
	clock, runs := inOneStep(), 0
	h, err := clock.AfterFunc(timeout, func() { runs++ })
	must(err)
	prepare(clock, h)
	return object{h, func() string {
		s := fmt.Sprint(h.Expired(), h.Cancelled(), runs)
		clock.AdvanceClock(timeout)
		return fmt.Sprint(s, h.Expired(), h.Cancelled(), runs, clock.Pending())
	}, map[string]func(){"advance": func() { clock.AdvanceClock(timeout) }, "stop the timer": func() { clock.Stop() }}, nil}
}

func periodic(prepare func(*timer.Handle)) object {
	clock, runs := inOneStep(), 0
	h, err := clock.ScheduleAtFixedRate(timeout, timeout, func() { runs++ })
	must(err)
	prepare(h)
	return object{h, func() string {
		s := fmt.Sprint(h.Expired(), h.Cancelled(), runs)
		clock.AdvanceClock(timeout)
		s = fmt.Sprint(s, h.Expired(), h.Cancelled(), runs)
		h.Stop()
		return s + fmt.Sprint(clock.Pending())
	}, map[string]func(){"advance": func() { clock.AdvanceClock(timeout) }, "stop the timer": func() { clock.Stop() }}, nil}
}
