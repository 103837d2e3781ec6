//go:build interleave

package interleave

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/proof/explore"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/queue"
	"github.com/delayedop/purgatory/reaper"
	"github.com/delayedop/purgatory/timer"
	"github.com/delayedop/purgatory/watermark"
)

// object is what two goroutines call at once: a value, and what can be seen of it when they have returned.
type object struct {
	value any
	look  func() string
}

// left are the methods that TestAVerbTwiceAtOnce does not call: those that wait for another verb, or return what a loop goes over.
var left = map[string]string{
	"Waiter.Result":          "it waits until another verb has ended the request",
	"ExpirationReaper.Ended": "it changes nothing, and what it says depends on a third goroutine",
}

// also are results that one after the other do not have, by object and verb: beginnings of what is seen.
var also = map[string]string{
	// Both contexts have ended, and each call has waited before the other one closes the queue.
	"queue with waiters: Shutdown": "[error 0 error 1], then",
}

// objects are made anew for each run. Each is in a state in which its verbs have something to do.
var objects = map[string]func() object{
	"watermark that is waited for": func() object {
		p, clock := lightPurgatory()
		w := watermark.New(p, 1, 0)
		six, err := w.StartWait(6)
		must(err)
		return object{w, func() string {
			return fmt.Sprint(w.Position(), w.Waiting(), w.Err(), six.Err(), watermarkStats(w), clock.Now(), p.NumDelayed())
		}}
	},
	"watermark that has risen": func() object {
		p, _ := lightPurgatory()
		w := watermark.New(p, 1, 0)
		six, err := w.StartWait(9)
		must(err)
		w.Advance(6)
		return object{w, func() string {
			return fmt.Sprint(w.Position(), w.Waiting(), w.Err(), six.Err(), watermarkStats(w), p.NumDelayed())
		}}
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
		}}
	},
	"wait of a purgatory": func() object {
		p, _ := lightPurgatory()
		wait, err := p.StartWait(timeout, func() bool { return false }, 1)
		must(err)
		return object{wait, func() string { return fmt.Sprint(wait.Err(), p.NumDelayed(), p.Stats().Cancelled) }}
	},
	"queue with waiters": func() object {
		q, clock := lightQueue[int]()
		one, err := q.Start(timeout, nil)
		must(err)
		two, err := q.Start(timeout, nil)
		must(err)
		return object{q, func() string { return fmt.Sprint(ends(one), ends(two), q.Stats(), clock.Pending()) }}
	},
	"queue with items": func() object {
		q, clock := lightQueue[int]()
		for item := range 3 {
			must(q.Put(item))
		}
		item, err := q.Take(context.Background(), 0)
		must(err)
		return object{q, func() string { return fmt.Sprint(item, q.Stats(), clock.Pending()) }}
	},
	"request of a queue": func() object {
		q, clock := lightQueue[int]()
		w, err := q.Start(timeout, nil)
		must(err)
		return object{w, func() string { return fmt.Sprint(ends(w), q.Stats(), clock.Pending()) }}
	},
	"handle that waits":    func() object { return handle(func(*timer.ManualTimer, *timer.Handle) {}) },
	"handle that has run":  func() object { return handle(func(t *timer.ManualTimer, _ *timer.Handle) { t.AdvanceClock(timeout) }) },
	"handle that stopped":  func() object { return handle(func(_ *timer.ManualTimer, h *timer.Handle) { h.Stop() }) },
	"handle that repeats":  func() object { return periodic(func(*timer.Handle) {}) },
	"handle that repeated": func() object { return periodic(func(h *timer.Handle) { h.Stop() }) },
	"reaper": func() object {
		var r *reaper.ExpirationReaper
		r = reaper.Start(func(<-chan struct{}, time.Duration) bool { return false }, timeout, func() { r.Stop() })
		return object{r, func() string { return fmt.Sprint(r.Ended()) }}
	},
}

// Two goroutines call one verb at once, each with arguments of its own. In every interleaving, what they return, and what can be seen
// afterwards, is as if one had called it after the other. The verbs are the methods of the types: a new one is among them.
func TestAVerbTwiceAtOnce(t *testing.T) {
	for _, name := range slices.Sorted(keysOf(objects)) {
		make := objects[name]
		var verbs []string
		var kind string
		run(t, name, 0, func(spawn func(string, func())) func() error { // the types' methods are the same in each run
			if o := make(); verbs == nil {
				kind, _, _ = strings.Cut(reflect.TypeOf(o.value).Elem().Name(), "[")
				for i := range reflect.TypeOf(o.value).NumMethod() {
					verbs = append(verbs, reflect.TypeOf(o.value).Method(i).Name)
				}
				defer o.look()
			}
			spawn("nothing", func() {})
			return func() error { return nil }
		})
		for _, verb := range verbs {
			if left[kind+"."+verb] == "" {
				twice(t, name, verb, make)
			}
		}
	}
}

func twice(t *testing.T, name, verb string, make func() object) {
	t.Helper()
	allowed := map[string]bool{}
	pair := func(together bool, first int, see func(string) error) func(spawn func(string, func())) func() error {
		return func(spawn func(string, func())) func() error {
			o := make()
			var results [2]string
			call := func(i int) { results[i] = call(t, o.value, verb, i) }
			if together {
				spawn("0", func() { call(0) })
				spawn("1", func() { call(1) })
			} else {
				spawn("one after the other", func() { call(first); call(1 - first) })
			}
			return func() error { return see(fmt.Sprintf("%v, then %s", results, o.look())) }
		}
	}
	for first := range 2 {
		run(t, name+": "+verb, 0, pair(false, first, func(seen string) error { allowed[seen] = true; return nil }))
	}
	exploreOne(t, strings.ReplaceAll(name, " ", "-")+"/"+verb+"+"+verb, min(*pairBound, 2), pair(true, 0, func(seen string) error {
		if more := also[name+": "+verb]; !allowed[seen] && (more == "" || !strings.HasPrefix(seen, more)) {
			return fmt.Errorf("%s twice at once on a %s: %s\none after the other: %q", verb, name, seen, slices.Sorted(keysOf(allowed)))
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

// call calls a method with arguments for the i-th of two calls, and returns its results.
func call(t *testing.T, value any, name string, i int) string {
	method := reflect.ValueOf(value).MethodByName(name)
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
		case in == reflect.TypeFor[int64]():
			arg = []int64{7, 5}[i]
		case in == reflect.TypeFor[int]():
			arg = 10 + i
		case in.Kind() == reflect.Func:
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

func handle(prepare func(*timer.ManualTimer, *timer.Handle)) object {
	clock, runs := newClock(0), 0
	h, err := clock.AfterFunc(timeout, func() { runs++ })
	must(err)
	prepare(clock, h)
	return object{h, func() string {
		s := fmt.Sprint(h.Expired(), h.Cancelled(), runs)
		clock.AdvanceClock(timeout)
		return fmt.Sprint(s, h.Expired(), h.Cancelled(), runs)
	}}
}

func periodic(prepare func(*timer.Handle)) object {
	clock, runs := newClock(0), 0
	h, err := clock.ScheduleAtFixedRate(timeout, timeout, func() { runs++ })
	must(err)
	prepare(h)
	return object{h, func() string {
		s := fmt.Sprint(h.Expired(), h.Cancelled(), runs)
		clock.AdvanceClock(timeout)
		s = fmt.Sprint(s, h.Expired(), h.Cancelled(), runs)
		h.Stop()
		return s
	}}
}
