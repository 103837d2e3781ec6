package purgatory_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/purgatory"
)

// What an adapter in another program relies on, and so need not do itself.

func TestMustPanicsWithTheErrorOfNewAndWithNothingElse(t *testing.T) {
	p := purgatory.Must(purgatory.New[struct{}]("an adapter"))
	require.NoError(t, p.Close())
	assert.Equal(t, "an adapter", p.Name())
	_, err := purgatory.New[struct{}]("")
	assert.PanicsWithError(t, err.Error(), func() { purgatory.Must(purgatory.New[struct{}]("")) })
}

// With a limit of 0 nobody waits: who is met at once is served, and everybody else is refused, at once.
func TestALimitOfZeroRefusesWhoeverWouldWait(t *testing.T) {
	for name, opts := range map[string][]purgatory.Option{
		"in any order": {purgatory.WithMaxPending(0)},
		"in a line":    {purgatory.WithMaxPending(0), purgatory.WithFirstInFirstOut()},
	} {
		t.Run(name, func(t *testing.T) {
			p := onManualClock[string](t, opts...)
			met := false
			ready := func() bool { return met }
			for range 2 {
				require.ErrorIs(t, p.Await(t.Context(), purgatory.NoTimeout, ready, "a"), purgatory.ErrFull)
				_, err := p.StartWait(hour, ready, "a")
				require.ErrorIs(t, err, purgatory.ErrFull)
				_, err = p.TryCompleteElseWatch(&op{try: ready}, hour, "a", "b")
				require.ErrorIs(t, err, purgatory.ErrFull)
				require.ErrorIs(t, p.Await(t.Context(), 0, ready, "a"), purgatory.ErrExpired, "who would not wait in any case")
				require.Zero(t, p.NumDelayed())
				met = true
				require.NoError(t, p.Await(t.Context(), purgatory.NoTimeout, ready, "a"))
				completed, err := p.TryCompleteElseWatch(&op{try: ready}, hour, "a", "b")
				require.NoError(t, err)
				require.True(t, completed)
				met = false
			}
			assert.EqualValues(t, 6, p.Stats().RejectedFull)
			assert.Zero(t, p.Stats().MaxPending)
		})
	}
}

// A wait that its context ends returns ctx.Err() itself, or the cause that the context was given.
func TestAWaitReturnsTheErrorOfItsContextUnchanged(t *testing.T) {
	never := func() bool { return false }
	for name, c := range map[string]func(context.Context) (context.Context, func()){
		"cancelled": func(ctx context.Context) (context.Context, func()) { return context.WithCancel(ctx) },
		"its deadline has passed": func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			return ctx, func() { time.Sleep(2 * time.Second); cancel() }
		},
		"with a cause": func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithCancelCause(ctx)
			return ctx, func() { cancel(errGone) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := purgatory.Must(purgatory.New[string](t.Name()))
				defer p.Close()
				ctx, end := c(t.Context())
				waits := make(chan error, 2)
				go func() { waits <- p.Await(ctx, hour, never, "a") }()
				go func() {
					_, err := purgatory.AwaitRead(ctx, p, hour, func(context.Context) (int, bool, error) { return 0, false, nil }, "a")
					waits <- err
				}()
				synctest.Wait()
				end()
				want := ctx.Err()
				if name == "with a cause" {
					want = errGone
				}
				for range 2 {
					assert.True(t, <-waits == want) //nolint:errorlint // the very error, and not one that wraps it
				}
				assert.True(t, p.Await(ctx, hour, never, "a") == want) //nolint:errorlint // as above
			})
		})
	}
}

// Who looks for a slot before it waits overtakes nobody, and is counted if it had to wait.
func TestWhoLooksBeforeItWaitsKeepsTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCountedSlots(0)
		defer s.waiting.Close()
		got := make(chan string, 2)
		acquire := func(name string) {
			go func() {
				if s.acquire(t.Context()) == nil {
					got <- name
				}
			}()
			synctest.Wait()
		}
		acquire("first")
		s.free.Add(1) // its check is still to come
		acquire("second")
		s.release()
		synctest.Wait()
		assert.Equal(t, "first", <-got)
		assert.Equal(t, "second", <-got)
		assert.EqualValues(t, 2, s.waited.Load())
		s.free.Add(1)
		acquire("third")
		assert.Equal(t, "third", <-got)
		assert.EqualValues(t, 2, s.waited.Load())
	})
}

// The channel of a Wait that is met at once is closed when StartWait returns, in a line, too.
func TestStartWaitSaysWhetherItWaits(t *testing.T) {
	for name, opts := range map[string][]purgatory.Option{"in any order": nil, "in a line": {purgatory.WithFirstInFirstOut()}} {
		t.Run(name, func(t *testing.T) {
			p := onManualClock[string](t, opts...)
			for _, met := range []bool{true, false, true} {
				w, err := p.StartWait(hour, func() bool { return met }, "a")
				require.NoError(t, err)
				select {
				case <-w.Done():
					require.True(t, met)
				default:
					require.False(t, met)
				}
				w.Stop()
			}
		})
	}
}
