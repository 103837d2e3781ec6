package queue

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/delayedop/purgatory/timer"
)

// Verbs at random, also of callbacks, many in the very tick in which requests are late whose entries have yet to expire: whatever a verb
// finds that has left, and however it ends itself, whoever can be served is served.
func TestVerbsBesideThoseWhoHaveLeft(t *testing.T) {
	for seed := range uint64(1000) {
		besideDeadlines[struct{}](t, rand.New(rand.NewPCG(seed, 0)))
		besideDeadlines[int](t, rand.New(rand.NewPCG(seed, 1)))
		if t.Failed() {
			t.Fatal("with seed ", seed)
		}
	}
}

func besideDeadlines[T any](t *testing.T, r *rand.Rand) {
	t.Helper()
	often := func() bool { return r.IntN(2) == 0 }
	options := []Option{WithAging(time.Millisecond), WithNewestFirst(r.IntN(3) == 0, often())}
	if often() {
		options = append(options, WithMaxItems(2+r.IntN(6)))
	}
	if often() {
		options = append(options, WithMaxWaiting(2+r.IntN(6)))
	}
	q, clock := manual[T](t, options...)
	some := func(kinds int) Place {
		p := Place{Tenant: []string{"", "a", "b"}[r.IntN(3)], Class: r.IntN(3)}
		if q.units && often() {
			p.N, kinds = 1+r.IntN(4), 1
		}
		for range 1 + r.IntN(kinds) {
			p.Kinds = append(p.Kinds, []string{"", "x"}[r.IntN(2)])
		}
		return p
	}
	var item T
	var all []*Waiter[T]
	var verb func(depth int)
	verb = func(depth int) {
		switch r.IntN(10) {
		case 0, 1:
			_ = q.Put(item, some(1))
		case 2:
			_ = q.PutBack(item, some(1))
		case 3:
			_, _ = q.Hand(item, some(1))
		case 4, 5, 6:
			var done func(T, error)
			if often() && depth < 3 {
				done = func(T, error) { verb(depth + 1) }
			}
			timeout := []time.Duration{0, time.Millisecond, 2 * time.Millisecond, timer.Never}[r.IntN(4)]
			if w, err := q.Start(timeout, done, some(2)); err == nil {
				all = append(all, w)
			}
		case 7:
			if len(all) > 0 {
				all[r.IntN(len(all))].Stop()
			}
		case 8:
			_, _ = clock.AfterFunc(time.Duration(r.IntN(3))*time.Millisecond, func() { verb(depth + 1) })
		default:
			clock.AdvanceClock(time.Duration(r.IntN(3)) * time.Millisecond)
		}
		q.mu.Lock()
		defer q.mu.Unlock()
		for _, k := range q.mu.kinds {
			if x := k.line.next(); x != nil && x.of.n <= k.units && x.of.deadline > clock.Now() {
				assert.Fail(t, "the next can be served")
			}
		}
	}
	for range 200 {
		verb(0)
	}
	q.Close(nil)
	for clock.Pending() > 0 {
		clock.AdvanceClock(time.Second)
	}
	assert.Zero(t, q.mu.waiting+q.mu.callbacks)
	check(t, q)
}
