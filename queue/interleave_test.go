//go:build interleave

package queue

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/proof/explore"
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
	all      []*Waiter[T]
	running  int   // callbacks
	drained  bool  // a Shutdown has returned, and has left nobody
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

func (s *scene[T]) callback(item T, err error) {
	if s.drained {
		s.err = errors.New("a callback runs after Shutdown has returned")
	}
	s.running++
	sched.Yield()
	s.answer(item, err)
	s.running--
}

func (s *scene[T]) start(done func(T, error), at ...Place) *Waiter[T] {
	if at = append(at, Place{N: s.units}); len(at) > 1 {
		at = at[:1]
	}
	w, err := s.q.Start(time.Second, done, at...)
	switch {
	case err != nil:
		if !errors.Is(err, ErrClosed) {
			s.err = err
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
			s.answer(s.q.Take(ctx, time.Second, Place{N: s.units}))
		},
		"try":      func(s *scene[T]) { s.requests++; s.answer(s.q.Take(background, 0, Place{N: s.units})) },
		"start":    func(s *scene[T]) { s.start(nil) },
		"callback": func(s *scene[T]) { s.start(s.callback) },
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
			switch err := s.q.Shutdown(ended); {
			case err != nil && !errors.Is(err, context.Canceled):
				s.err = err
			case err == nil || err == context.Canceled: //nolint:errorlint // the very error: every callback has returned
				s.drained = true
				if s.running > 0 || s.q.mu.callbacks > 0 || s.q.mu.waiting > 0 {
					s.err = fmt.Errorf("when Shutdown returns %d callbacks run, %d are counted, %d wait", s.running, s.q.mu.callbacks, s.q.mu.waiting)
				}
			}
		},
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
	case int64(len(s.got))*n+int64(len(s.returned)) != s.put || stats.Put != s.put:
		return fmt.Errorf("%d were put, %d counted; %d were taken by requests for %d, %d returned", s.put, stats.Put, len(s.got), n, len(s.returned))
	case stats.Served != int64(len(s.got)):
		return fmt.Errorf("%d were served, %d counted", len(s.got), stats.Served)
	case s.q.mu.callbacks != 0:
		return fmt.Errorf("%d callbacks are counted", s.q.mu.callbacks)
	}
	return nil
}

// beginnings are what is there when the goroutines begin: nothing, one that waits, or what one needs.
var beginnings = []string{"nobody", "one waits", "an item is kept"}

func explores[T any](t *testing.T, item func(n int) T, units, preemptions int, beginning string, names ...string) (schedules int) {
	setup := func(spawn func(string, func())) func() error {
		clock, err := timer.NewManualTimer()
		if err != nil {
			return func() error { return err }
		}
		s := &scene[T]{t: t, q: newQueue[T](t, WithTimer(clock)), clock: clock, spawn: spawn, units: units}
		all := verbs(item)
		switch beginning {
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

// Every verb runs beside itself and each other with two preemptions, beside those and a put with one, and beside each two
// others with none: there a goroutine gives way where it waits or ends.
func TestEachRequestEndsOnceAndNoItemIsLostEveryInterleaving(t *testing.T) {
	t.Cleanup(explore.Close)
	names := []string{"put", "hand", "take", "try", "start", "callback", "stop", "expire", "close", "drain"}
	number := func(n int) int { return n }
	unit := func(int) struct{} { return struct{}{} }
	schedules, scenes := 0, 0
	for _, beginning := range beginnings {
		for i, a := range names {
			for j, b := range names[i:] {
				schedules += explores(t, number, 0, 2, beginning, a, b)
				schedules += explores(t, unit, 2, 1, beginning, a, b, "put")
				scenes += 2
				for _, c := range names[i+j:] {
					schedules += explores(t, number, 0, 0, beginning, a, b, c)
					scenes++
				}
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
