package queue

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/timer"
)

// refusal is a reason why a queue refuses, and what its verbs return then. Refusals that are counted are in counts.
type refusal[T any] struct {
	name    string
	options []Option
	clock   []timer.Option
	prepare func(q *Queue[T], clock *timer.ManualTimer)
	ctx     context.Context
	timeout time.Duration
	at      Place // the kinds, the tenant and N are those of the caller
	want    map[string]error
	counts  Stats // for each unit, or request
}

// refusals are all that there are, for items of n units.
func refusals[T any](t *testing.T, n int) []refusal[T] {
	t.Helper()
	var item T
	each := func(err error, verbs ...string) map[string]error {
		want := map[string]error{}
		for _, verb := range verbs {
			want[verb] = err
		}
		return want
	}
	takers := []string{"Take", "Start", "Start with a callback"}
	waits := func(timeout time.Duration, at ...Place) func(*Queue[T], *timer.ManualTimer) {
		return func(q *Queue[T], _ *timer.ManualTimer) {
			_, err := q.Start(timeout, nil, at...)
			require.NoError(t, err)
		}
	}
	gone, cancel := context.WithCancelCause(background)
	cancel(errCause)
	all := append([]string{"Put", "PutBack", "Hand"}, takers...)
	return []refusal[T]{
		{name: "closed", prepare: func(q *Queue[T], _ *timer.ManualTimer) { q.Close(errCause) }, want: each(errCause, all...)},
		{name: "draining", prepare: func(q *Queue[T], _ *timer.ManualTimer) { q.mu.draining = true }, want: each(ErrClosed, takers...)},
		{
			name: "draining, and does not wait", prepare: func(q *Queue[T], _ *timer.ManualTimer) { q.mu.draining = true },
			timeout: -1, want: each(ErrClosed, takers...),
		},
		{
			name: "full of items", options: []Option{WithMaxItems(4)}, want: each(ErrFull, "Put"), counts: Stats{PutRefused: int64(n)},
			prepare: func(q *Queue[T], _ *timer.ManualTimer) {
				for range 5 - n {
					require.NoError(t, q.Put(item))
				}
			},
		},
		{name: "full of requests", options: []Option{WithMaxWaiting(1)}, prepare: waits(timer.Never), want: each(ErrFull, takers...), counts: Stats{Refused: 1}},
		{name: "full of the tenant's requests", options: []Option{WithMaxWaiting(2)}, prepare: waits(timer.Never, Place{Tenant: "new"}), at: Place{Tenant: "new"}, want: each(ErrFull, takers...), counts: Stats{Refused: 1}},
		{name: "full of entries", clock: []timer.Option{timer.WithMaxPending(1)}, prepare: waits(time.Hour), want: each(ErrFull, takers...), counts: Stats{Refused: 1}},
		{name: "its timer is stopped", prepare: func(_ *Queue[T], clock *timer.ManualTimer) { clock.Stop() }, want: each(ErrClosed, takers...), counts: Stats{Refused: 1}},
		{name: "no time", timeout: -1, want: each(ErrExpired, takers...), counts: Stats{Expired: 1}},
		{name: "the client has left", ctx: gone, want: each(errCause, "Take")},
		{name: "a bad place", at: Place{Class: 1}, want: each(ErrInvalid, all...)},
		{name: "nothing is taken", want: each(ErrInvalid, "PutBack")},
		{name: "nobody waits", want: each(nil, "Hand")},
	}
}

func refuse[T any](t *testing.T, n int) {
	t.Helper()
	for _, kinds := range [][]string{nil, {"new"}, {"new", "newer", "new"}} {
		for _, r := range refusals[T](t, n) {
			for verb, want := range r.want {
				giver := verb == "Put" || verb == "PutBack" || verb == "Hand"
				if giver && len(kinds) > 1 || n > 1 && (len(kinds) > 1 || verb == "Hand") {
					continue
				}
				name := fmt.Sprintf("%d %s %s %v", n, r.name, verb, kinds)
				clock, err := timer.NewManualTimer(r.clock...)
				require.NoError(t, err)
				q := newQueue[T](t, append(r.options, WithTimer(clock))...)
				if r.prepare != nil {
					r.prepare(q, clock)
				}
				before, entries, callbacks, kindsBefore, tenants := q.Stats(), clock.Pending(), q.mu.callbacks, len(q.mu.kinds), len(q.mu.tenants)
				at, ctx, timeout := r.at, r.ctx, r.timeout
				if at.Kinds, at.N = kinds, n; at.Tenant == "" && r.name != "full of requests" {
					at.Tenant = "a tenant"
				}
				if ctx == nil {
					ctx = background
				}
				if timeout == 0 {
					timeout = time.Minute
				}
				var item T
				switch verb {
				case "Put":
					err = q.Put(item, at)
				case "PutBack":
					err = q.PutBack(item, at)
				case "Hand":
					var handed bool
					handed, err = q.Hand(item, at)
					assert.False(t, handed, name)
				case "Take":
					item, err = q.Take(ctx, timeout, at)
					assert.Zero(t, item, name)
				default:
					done := func(T, error) { assert.Fail(t, "its callback is called", name) }
					if verb == "Start" {
						done = nil
					}
					var w *Waiter[T]
					w, err = q.Start(timeout, done, at)
					assert.Nil(t, w, name)
				}
				require.ErrorIs(t, err, want, name)
				before.Refused += r.counts.Refused
				before.PutRefused += r.counts.PutRefused
				before.Expired += r.counts.Expired
				assert.Equal(t, before, q.Stats(), name)
				assert.Equal(t, []int{entries, callbacks, kindsBefore, tenants},
					[]int{clock.Pending(), q.mu.callbacks, len(q.mu.kinds), len(q.mu.tenants)}, "entries, callbacks, kinds, tenants: %s", name)
				check(t, q)
				q.Close(nil)
				clock.AdvanceClock(time.Hour)
			}
		}
	}
}

// Each verb, refused for each reason, leaves nothing behind, gives its caller nothing, and is counted for what it is.
func TestWhatIsRefusedLeavesNothing(t *testing.T) {
	refuse[int](t, 1)
	refuse[struct{}](t, 1)
	refuse[struct{}](t, 2)
}

// A callback never runs on the goroutine of the verb that ends its request, whatever its timer is able to do: whoever calls that may
// hold a lock that the callback takes.
func TestACallbackRunsOnNoVerbsGoroutine(t *testing.T) {
	for name, of := range map[string]struct {
		options []timer.Option
		prepare func(clock *timer.SystemTimer)
	}{
		"a timer that runs": {nil, (*timer.SystemTimer).Start},
		"a timer that is full": {[]timer.Option{timer.WithMaxPending(1)}, func(clock *timer.SystemTimer) {
			clock.Start()
			_, err := clock.AfterFunc(time.Hour, func() {})
			assert.NoError(t, err)
		}},
		"a timer that is stopped": {nil, func(clock *timer.SystemTimer) { clock.Stop() }},
	} {
		for verb, end := range map[string]func(q *Queue[int], w *Waiter[int]){
			"Put":     func(q *Queue[int], _ *Waiter[int]) { assert.NoError(t, q.Put(1)) },
			"PutBack": func(q *Queue[int], _ *Waiter[int]) { assert.NoError(t, q.PutBack(1)) },
			"Hand":    func(q *Queue[int], _ *Waiter[int]) { _, err := q.Hand(1); assert.NoError(t, err) },
			"Stop":    func(_ *Queue[int], w *Waiter[int]) { assert.True(t, w.Stop()) },
			"Close":   func(q *Queue[int], _ *Waiter[int]) { assert.Empty(t, q.Close(nil)) },
			"Shutdown": func(q *Queue[int], _ *Waiter[int]) {
				ended, cancel := context.WithCancel(background)
				cancel()
				_ = q.Shutdown(ended)
			},
		} {
			synctest.Test(t, func(t *testing.T) {
				clock, err := timer.NewSystemTimer(of.options...)
				require.NoError(t, err)
				of.prepare(clock)
				q := newQueue[int](t, WithTimer(clock))
				require.NoError(t, q.Put(1))
				_, err = q.Take(background, 0)
				require.NoError(t, err)
				returned, called := make(chan struct{}), make(chan struct{})
				w, err := q.Start(timer.Never, func(int, error) {
					defer close(called)
					select {
					case <-returned:
					case <-time.After(time.Minute):
						assert.Fail(t, "the verb waits for the callback", "%s, %s", verb, name)
					}
				})
				require.NoError(t, err)
				end(q, w)
				close(returned)
				<-called
				synctest.Wait()
				q.Close(nil)
				check(t, q)
				clock.Stop()
			})
		}
	}
}
