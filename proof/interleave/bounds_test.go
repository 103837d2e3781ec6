//go:build interleave

package interleave

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/delayedop/purgatory/proof/explore"
	"github.com/delayedop/purgatory/proof/explore/sched"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/queue"
	"github.com/delayedop/purgatory/timer"
)

// crowded is a purgatory on a manual clock, in which n operations wait for one key, each for its own position, and for a key of its own.
func crowded(n int, yes *bool, options ...purgatory.Option) *purgatory.Purgatory[int] {
	clock := newClock(0)
	p, err := purgatory.New[int]("crowd", append(options, purgatory.WithTimer(clock), purgatory.WithWorkers(1))...)
	must(err)
	for i := range n {
		o := &light{ready: func() bool { return *yes }}
		_, err := p.TryCompleteElseWatchAt(o, timeout, purgatory.KeyPosition[int]{Key: -1, Position: int64(i)}, purgatory.KeyPosition[int]{Key: i, Position: purgatory.AnyPosition})
		must(err)
	}
	return p
}

// filled is a timer with n entries that are due together, a minute from now.
func filled(n int) (*timer.ManualTimer, []*timer.TaskEntry) {
	clock := newClock(0)
	var entries []*timer.TaskEntry
	for range n {
		e := new(timer.TaskEntry)
		e.Bind(filler{})
		must(clock.AddAt(e, 0, time.Minute))
		entries = append(entries, e)
	}
	return clock, entries
}

func longQueue() *queue.Queue[int] {
	q, err := queue.New[int](queue.WithTimer(newClock(0)))
	must(err)
	return q
}

// goesOver are verbs that go over n of something.
var goesOver = map[string]func(n int) func(){
	"a check that all fail": func(n int) func() {
		p := crowded(n, new(bool))
		return func() { p.CheckAndComplete(-1) }
	},
	"a check that ends all": func(n int) func() {
		yes := false
		p := crowded(n, &yes)
		yes = true
		return func() { p.CheckAndComplete(-1) }
	},
	"a check up to a position": func(n int) func() {
		yes := false
		p := crowded(2*n, &yes)
		yes = true
		return func() { p.CheckAndCompleteUpTo(-1, int64(n)) }
	},
	"a check of all keys": func(n int) func() {
		yes := false
		p := crowded(n, &yes)
		yes = true
		return func() {
			for key := range p.Keys() {
				p.CheckAndComplete(key)
			}
		}
	},
	"a cancellation": func(n int) func() {
		p := crowded(n, new(bool))
		return func() { p.CancelForKey(-1, errCause) }
	},
	"a close": func(n int) func() {
		p := crowded(n, new(bool))
		return func() { _ = p.Close() }
	},
	"all timeouts": func(n int) func() {
		p := crowded(n, new(bool))
		return func() { p.AdvanceClock(timeout) }
	},
	"an inspection": func(n int) func() {
		p := crowded(n, new(bool))
		return func() { p.Inspect(10); p.Stats(); p.NumDelayed() }
	},
	"entries that expire": func(n int) func() {
		clock, _ := filled(n)
		return func() { clock.AdvanceClock(time.Minute) }
	},
	"entries that are cancelled": func(n int) func() {
		clock, entries := filled(n)
		return func() { clock.CancelAll(entries) }
	},
	"entries that were extended": func(n int) func() {
		clock, entries := filled(n)
		for _, e := range entries {
			clock.Extend(e, time.Hour)
		}
		return func() { clock.AdvanceClock(time.Minute) }
	},
	"waiters that leave": func(n int) func() {
		q := longQueue()
		for range n {
			w, err := q.Start(timeout, nil)
			must(err)
			defer w.Stop()
		}
		return func() { must(q.Put(1)) }
	},
	"a line that closes": func(n int) func() {
		q := longQueue()
		for range n {
			_, err := q.Start(timeout, nil)
			must(err)
		}
		return func() { q.Close(nil) }
	},
	"a line that an item comes to": func(n int) func() {
		q := longQueue()
		for range n {
			_, err := q.Start(timeout, nil)
			must(err)
		}
		return func() { must(q.Put(1)); q.Stats() }
	},
	"kept items": func(n int) func() {
		q := longQueue()
		for i := range n {
			must(q.Put(i, queue.Place{Tenant: fmt.Sprint(i)}))
		}
		return func() {
			_, err := q.Take(context.Background(), 0)
			must(err)
		}
	},
}

// holdOf returns the number of points in the longest hold of a lock while a verb goes over n.
func holdOf(t *testing.T, name string, n int) (points int) {
	t.Helper()
	r := explore.Exploration{Limit: 1, Setup: func(spawn func(string, func())) func() error {
		do := goesOver[name](n)
		spawn(name, func() {
			sched.LongestHold()
			do()
			points = sched.LongestHold()
		})
		return func() error { return nil }
	}}.Explore()
	if r.Failure != nil {
		t.Errorf("%s over %d: %v", name, n, r.Failure)
	}
	return points
}

// bounds say over how many one hold of a lock goes, at most, where it does something for each. A hold of the other verbs does not depend on
// how many there are.
var bounds = map[string]int{
	"a check that ends all":      8,
	"a check up to a position":   8,
	"a check of all keys":        8, // how many of a key's operations are left depends on where its hash lies
	"a cancellation":             32,
	"a close":                    32, // so it does here
	"entries that are cancelled": 128,
}

// A hold of a lock does as much as with as many as its bound, however many there are. Those that lie anywhere, by the hashes of their
// keys, are compared with those of one key.
func TestNoHoldGrowsWithWhatItGoesOver(t *testing.T) {
	for _, name := range slices.Sorted(keysOf(goesOver)) {
		bound, like := bounds[name], name
		switch name {
		case "a check of all keys":
			like = "a check that ends all"
		case "a close":
			like = "a cancellation"
		}
		most := holdOf(t, like, 1)
		if bound > 0 {
			most = holdOf(t, like, bound-1)
			each := most - holdOf(t, like, bound-2)
			if each == 0 {
				t.Errorf("%s: a hold does nothing for each", like)
			}
			most += 2 * each // one more than the bound: the hold may look at it
		}
		for _, n := range []int{bound, bound + 1, bound + 2, 2 * bound, 4*bound + 1, 300, 1000} {
			if n == 0 {
				continue
			}
			if got := holdOf(t, name, n); got > most {
				t.Errorf("%s over %d: a hold of %d points, and %d are enough for %d", name, n, got, most, max(bound, 1))
			}
		}
	}
}
