//go:build interleave

package queue

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/proof/explore"
	explored "github.com/delayedop/purgatory/proof/explore/sched"
	"github.com/delayedop/purgatory/timer"
)

// scene is a queue of one run, what was put into it and what has become of that.
type scene[T any] struct {
	t        *testing.T
	q        *Queue[T]
	clock    *timer.ManualTimer
	spawn    func(string, func())
	waiting  *Waiter[T] // since the beginning
	units    int        // of each request
	requests int        // that were accepted, and have no channel
	answers  int        // of those
	inside   int        // callbacks that run
	taking   int        // calls of Take that have not returned
	backs    int64      // requests whose items were put back
	tight    bool       // the timer has room for one
	over     bool       // a Shutdown has returned, and has left nobody
	all      []*Waiter[T]
	items    int   // that were made
	put      int64 // units that were accepted
	got      []T
	returned []T
	err      error
}

func (s *scene[T]) answer(item T, err error) {
	s.answers++
	if err == nil {
		s.got = append(s.got, item)
	}
}

// callback is a callback that takes a while.
func (s *scene[T]) callback(item T, err error) {
	if s.over {
		s.fail("a callback runs after Shutdown has returned")
	}
	s.inside++
	sched.Yield()
	s.answer(item, err)
	s.inside--
}

func (s *scene[T]) take(ctx context.Context, timeout time.Duration) (item T, err error) {
	s.taking++
	defer func() { s.taking-- }()
	item, err = s.q.Take(ctx, timeout, Place{N: s.units})
	if w, ok := s.q.waiters.Get().(*waiter[T]); ok { // for the next Take, which may come now
		if w.next != nil || len(w.spots)+len(w.ready) > 0 || w.err != nil || w.gone != nil {
			s.fail("a Take has returned, and what it has left is in use")
		}
		s.q.waiters.Put(w)
	}
	return item, err
}

func (s *scene[T]) fail(format string, args ...any) {
	s.err = errors.Join(s.err, fmt.Errorf(format, args...))
}

// drained looks at the queue in the moment in which a Shutdown has returned err: nobody can come from then on, so nothing of what has to
// be over begins again. Entries of the timer are left only to requests that ended before, and whose goroutines have yet to say so.
func (s *scene[T]) drained(err error) {
	waiting, callbacks, inside, entries, ending := s.q.mu.waiting, s.q.mu.callbacks, s.inside, s.clock.Pending(), s.taking
	for _, w := range s.all {
		if !over(w) {
			ending++
		}
	}
	if err == nil && callbacks+inside > 0 {
		s.fail("Shutdown has succeeded, and %d callbacks are to come, %d run", callbacks, inside)
	}
	s.over = s.over || err == nil
	if err != nil {
		counted := 0
		_, _ = fmt.Sscanf(err.Error(), "queue: context canceled; %d callbacks", &counted)
		if ending += callbacks; !errors.Is(err, context.Canceled) || counted < callbacks { // some may have returned since they were counted
			s.fail("Shutdown returns %q; %d callbacks have not returned", err, callbacks)
		}
	}
	if waiting > 0 || int(entries) > ending || s.q.mu.closed == nil {
		s.fail("Shutdown has returned, and %d wait, the timer has %d entries, %d are on their way out, closed: %v", waiting, entries, ending, s.q.mu.closed)
	}
	if err := s.q.Put(*new(T)); err != s.q.mu.closed { //nolint:errorlint // that very error
		s.fail("Shutdown has returned, and Put returns %v", err)
	}
	if stats := s.q.Stats(); stats.Handed != stats.Served*int64(max(s.units, 1)) {
		s.fail("%d units were handed over to %d requests for %d", stats.Handed, stats.Served, s.units)
	}
}

func (s *scene[T]) start(done func(T, error), at ...Place) *Waiter[T] {
	if at = append(at, Place{N: s.units}); len(at) > 1 {
		at = at[:1]
	}
	w, err := s.q.Start(time.Second, done, at...)
	switch {
	case err != nil:
		if !errors.Is(err, ErrClosed) && !(s.tight && errors.Is(err, ErrFull)) {
			s.fail("%w", err)
		}
	case done != nil:
		s.requests++
	default:
		s.all = append(s.all, w)
	}
	return w
}

// verbs are what goroutines do side by side. A verb may spawn one more.
func verbs[T any](item func(n int) T) map[string]func(s *scene[T]) {
	return map[string]func(s *scene[T]){
		"put": func(s *scene[T]) {
			s.items++
			if s.q.Put(item(s.items)) == nil {
				s.put++
			}
		},
		"hand": func(s *scene[T]) {
			s.items++
			if handed, _ := s.q.Hand(item(s.items)); handed {
				s.put++
			}
		},
		"take": func(s *scene[T]) { // its context ends at some time
			ctx, cancel := context.WithCancel(background)
			s.spawn("cancel", func() { sched.Yield(); cancel() })
			s.requests++
			s.answer(s.take(ctx, time.Second))
		},
		"try": func(s *scene[T]) { s.requests++; s.answer(s.take(background, 0)) },
		"putback": func(s *scene[T]) { // what it finds
			s.requests++
			item, err := s.take(background, 0)
			if err == nil {
				switch back := s.q.PutBack(item, Place{N: s.units}); {
				case back == nil:
					s.backs++
					s.answers++
					return
				case !errors.Is(back, ErrClosed):
					s.fail("%w", back)
				}
			}
			s.answer(item, err)
		},
		"start":    func(s *scene[T]) { s.start(nil) },
		"callback": func(s *scene[T]) { s.start(s.callback) },
		"stats": func(s *scene[T]) { // what is seen while others are at it
			before := s.q.Stats()
			if stats := s.q.Stats(); stats.Waiting < 0 || stats.Items < 0 || stats.Handed < before.Handed || stats.Served < before.Served ||
				stats.Handed != stats.Served*int64(max(s.units, 1)) || stats.Waiting > 0 && stats.Items >= max(s.units, 1) {
				s.fail("%+v, then %+v", before, stats)
			}
		},
		"stop": func(s *scene[T]) {
			if s.waiting != nil {
				s.waiting.Stop()
			}
		},
		"expire": func(s *scene[T]) { s.clock.AdvanceClock(time.Minute) },
		"close":  func(s *scene[T]) { s.returned = append(s.returned, s.q.Close(nil)...) },
		"drain": func(s *scene[T]) {
			ended, cancel := context.WithCancel(background)
			cancel()
			returned := make(chan struct{})
			defer close(returned)
			s.spawn("time", func() { sched.Pause(drainFor, returned) }) // a callback runs when the clock is moved
			s.drained(s.q.Shutdown(ended))
		},
		"shutdown": func(s *scene[T]) { // it is not cut: whoever waits is served or ended, and callbacks run, when nothing else happens
			returned := make(chan struct{})
			defer close(returned)
			s.spawn("later", func() {
				for !sched.Closed(returned) {
					sched.Pause(0, returned)
					s.clock.AdvanceClock(time.Minute)
				}
			})
			err := s.q.Shutdown(background)
			if s.drained(err); err != nil {
				s.fail("%w", err)
			}
		},
	}
}

// through says by which verbs the methods of a queue and of a request are called.
var through = map[string]string{
	"Put": "put", "PutBack": "putback", "Hand": "hand", "Take": "take", "Start": "start", "Stats": "stats", "Close": "close", "Shutdown": "shutdown",
	"Stop": "stop",
	"Done": "start", "Result": "start", // rest calls them
}

// A verb that is added to the package has to be added to the scenes.
func TestEachMethodIsInTheScenesEveryInterleaving(t *testing.T) {
	all := verbs(func(n int) int { return n })
	for _, kind := range []reflect.Type{reflect.TypeFor[*Queue[int]](), reflect.TypeFor[*Waiter[int]]()} {
		for i := range kind.NumMethod() {
			name := kind.Method(i).Name
			if all[through[name]] == nil {
				t.Errorf("no verb calls %s.%s", kind, name)
			}
		}
	}
}

// rest looks at the scene when all goroutines have ended.
func (s *scene[T]) rest() error {
	check(s.t, s.q)
	s.returned = append(s.returned, s.q.Close(nil)...)
	s.clock.AdvanceClock(time.Hour) // for callbacks
	for _, w := range s.all {
		if !over(w) {
			return errors.New("a request has not ended when the queue is closed")
		}
		if item, err := w.Result(); err == nil {
			s.got = append(s.got, item)
		}
	}
	check(s.t, s.q)
	seen := map[any]bool{}
	for _, item := range append(s.got, s.returned...) {
		if n, ok := any(item).(int); ok && seen[n] {
			return fmt.Errorf("item %d was handed over twice", n)
		}
		seen[item] = true
	}
	n := int64(max(s.units, 1))
	switch stats := s.q.Stats(); {
	case s.err != nil:
		return s.err
	case s.answers != s.requests:
		return fmt.Errorf("%d requests, %d answers", s.requests, s.answers)
	case s.inside != 0 || s.clock.Pending() != 0:
		return fmt.Errorf("%d callbacks run, the timer has %d entries", s.inside, s.clock.Pending())
	case int64(len(s.got))*n+int64(len(s.returned)) != s.put || stats.Put != s.put:
		return fmt.Errorf("%d were put, %d counted; %d were taken by requests for %d, %d returned", s.put, stats.Put, len(s.got), n, len(s.returned))
	case stats.Served != int64(len(s.got))+s.backs || stats.Back != s.backs*n:
		return fmt.Errorf("%d were served, %d of them for a while, %d and %d units counted", len(s.got), s.backs, stats.Served, stats.Back)
	case s.q.mu.callbacks != 0:
		return fmt.Errorf("%d callbacks are counted", s.q.mu.callbacks)
	}
	return nil
}

// beginnings are what is there when the goroutines begin: nothing, one that waits, or what one needs.
var beginnings = []string{"nobody", "one waits", "an item is kept"}

// Two more, for the ends of a queue: one waits for its callback, and there is room for one in the timer.
const (
	calls = "one waits for its callback"
	tight = "one waits for its callback, and fills the timer"
)

func explores[T any](t *testing.T, item func(n int) T, units, preemptions int, beginning string, names ...string) (schedules int) {
	setup := func(spawn func(string, func())) func() error {
		room := 0
		if beginning == tight {
			room = 1
		}
		clock, err := timer.NewManualTimer(timer.WithMaxPending(room))
		if err != nil {
			return func() error { return err }
		}
		s := &scene[T]{t: t, q: newQueue[T](t, WithTimer(clock)), clock: clock, spawn: spawn, units: units, tight: room > 0}
		all := verbs(item)
		switch beginning {
		case calls, tight:
			s.waiting = s.start(s.callback)
		case "one waits":
			s.waiting = s.start(nil)
		case "an item is kept":
			for range max(units, 1) {
				all["put"](s)
			}
		}
		for _, name := range names {
			spawn(name, func() { all[name](s) })
		}
		return s.rest
	}
	r := explore.Exploration{Setup: setup, Preemptions: preemptions}.Explore()
	if r.Failure != nil {
		t.Fatalf("%v, %q, %d units: %v, after %d schedules; replay %s", names, beginning, units, r.Failure, r.Schedules, r.Schedule)
	}
	return r.Schedules
}

// less is how many preemptions less a scene gets where a Shutdown is beside another one, or a Take: each brings a goroutine with it.
func less(names ...string) (n int) {
	drains := false
	for _, name := range names {
		drains = drains || name == "drain" || name == "shutdown"
		if name == "drain" || name == "shutdown" || name == "take" {
			n++
		}
	}
	if !drains {
		return 0
	}
	return n - 1
}

// Every verb runs beside itself and each other with two preemptions, beside those and a put with one, and beside each two
// others with none: there a goroutine gives way where it waits or ends.
func TestEachRequestEndsOnceAndNoItemIsLostEveryInterleaving(t *testing.T) {
	t.Cleanup(explore.Close)
	names := slices.Sorted(maps.Keys(verbs(func(n int) int { return n })))
	number := func(n int) int { return n }
	unit := func(int) struct{} { return struct{}{} }
	schedules, scenes := 0, 0
	for _, beginning := range beginnings {
		for i, a := range names {
			for j, b := range names[i:] {
				schedules += explores(t, number, 0, 2-less(a, b), beginning, a, b)
				schedules += explores(t, unit, 2, 1-less(a, b), beginning, a, b, "put")
				scenes += 2
				for _, c := range names[i+j:] {
					if less(a, b, c) == 2 {
						continue
					}
					schedules += explores(t, number, 0, 0, beginning, a, b, c)
					scenes++
				}
			}
		}
	}
	t.Logf("%d scenes, %d schedules", scenes, schedules)
}

// Whoever ends several at once touches none that it has told: two of them may wait again by then.
func TestATakeLeavesNothingInUseEveryInterleaving(t *testing.T) {
	t.Cleanup(explore.Close)
	explored.PointsBehind = true
	defer func() { explored.PointsBehind = false }()
	t.Logf("%d schedules", explores(t, func(n int) int { return n }, 0, 1, "nobody", "take", "take", "close"))
}

// A drain that is not cut, one that is, and Close, beside every verb, while a callback is to come: at the return of Shutdown everything is
// over. In the one timer there is no room for the callback if somebody else waits, so it runs on a goroutine of its own.
func TestADrainIsOverWhenItReturnsEveryInterleaving(t *testing.T) {
	t.Cleanup(explore.Close)
	number := func(n int) int { return n }
	schedules, scenes := 0, 0
	for _, beginning := range []string{calls, tight} {
		for _, end := range []string{"shutdown", "drain", "close"} {
			for name := range verbs(number) {
				preemptions := 2 - less(end, name)
				if beginning == tight || end == "close" {
					preemptions = 1
				}
				schedules += explores(t, number, 0, preemptions, beginning, end, name)
				scenes++
			}
		}
	}
	t.Logf("%d scenes, %d schedules", scenes, schedules)
}

// One waits for two kinds, while an item of each is put, it is stopped, or its deadline passes.
func TestOneOfSeveralKindsIsTakenEveryInterleaving(t *testing.T) {
	t.Cleanup(explore.Close)
	for _, third := range []string{"stop", "expire", "close", "start"} {
		setup := func(spawn func(string, func())) func() error {
			clock, err := timer.NewManualTimer()
			if err != nil {
				return func() error { return err }
			}
			s := &scene[int]{t: t, q: newQueue[int](t, WithTimer(clock)), clock: clock, spawn: spawn}
			s.waiting = s.start(nil, Place{Kinds: []string{"a", "b"}})
			for i, kind := range []string{"a", "b"} {
				spawn("put "+kind, func() {
					if s.q.Put(i, Place{Kinds: []string{kind}}) == nil {
						s.put++
					}
				})
			}
			if third == "start" {
				spawn(third, func() { s.start(nil, Place{Kinds: []string{"b", "a"}}) })
			} else {
				spawn(third, func() { verbs(func(n int) int { return n })[third](s) })
			}
			return s.rest
		}
		r := explore.Exploration{Setup: setup, Preemptions: 2}.Explore()
		if r.Failure != nil {
			t.Fatalf("%s: %v, after %d schedules; replay %s", third, r.Failure, r.Schedules, r.Schedule)
		}
		t.Logf("%s: %d schedules", third, r.Schedules)
	}
}
