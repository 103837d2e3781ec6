package purgatory_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// Every method that takes keys or positions refuses none and too many of them, and accepts as many
// as there may be.
func TestEveryMethodBoundsItsKeysAndPositions(t *testing.T) {
	p := onManualClock[int](t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	no := func() bool { return false }
	noValue := func() (int, bool) { return 0, false }
	noRead := func(context.Context) (int, bool, error) { return 0, false, nil }
	positions := func(keys []int) (at []purgatory.KeyPosition[int]) {
		for _, key := range keys {
			at = append(at, purgatory.KeyPosition[int]{Key: key, Position: 1})
		}
		return at
	}
	for name, call := range map[string]func(keys []int) error{
		"TryCompleteElseWatch": func(keys []int) error {
			_, err := p.TryCompleteElseWatch(&op{}, 0, keys...)
			return err
		},
		"TryCompleteElseWatchAt": func(keys []int) error {
			_, err := p.TryCompleteElseWatchAt(&op{}, 0, positions(keys)...)
			return err
		},
		"Await":      func(keys []int) error { return p.Await(ctx, 0, no, keys...) },
		"AwaitAt":    func(keys []int) error { return p.AwaitAt(ctx, 0, no, positions(keys)...) },
		"AwaitValue": func(keys []int) error { _, err := purgatory.AwaitValue(ctx, p, 0, noValue, keys...); return err },
		"AwaitValueAt": func(keys []int) error {
			_, err := purgatory.AwaitValueAt(ctx, p, 0, noValue, positions(keys)...)
			return err
		},
		"AwaitRead": func(keys []int) error { _, err := purgatory.AwaitRead(ctx, p, 0, noRead, keys...); return err },
		"AwaitReadAt": func(keys []int) error {
			_, err := purgatory.AwaitReadAt(ctx, p, 0, noRead, positions(keys)...)
			return err
		},
		"StartWait":   func(keys []int) error { _, err := p.StartWait(0, no, keys...); return err },
		"StartWaitAt": func(keys []int) error { _, err := p.StartWaitAt(0, no, positions(keys)...); return err },
	} {
		t.Run(name, func(t *testing.T) {
			all := make([]int, operation.MaxKeys+1)
			for i := range all {
				all[i] = i
			}
			assert.ErrorIs(t, call(nil), purgatory.ErrNoKeys)
			assert.ErrorIs(t, call(all), purgatory.ErrTooManyKeys)
			for _, keys := range [][]int{all[:1], all[:operation.MaxKeys]} {
				if err := call(keys); err != nil {
					assert.ErrorIs(t, err, purgatory.ErrExpired)
				}
				p.AdvanceClock(0)
			}
			empty(t, p)
		})
	}
	conserved(t, p)
}

// watchedContext is a context that counts who wants to be told of its end.
type watchedContext struct {
	context.Context
	watching atomic.Int64
}

func (c *watchedContext) AfterFunc(func()) (stop func() bool) {
	c.watching.Add(1)
	var stopped atomic.Bool
	return func() bool {
		first := !stopped.Swap(true)
		if first {
			c.watching.Add(-1)
		}
		return first
	}
}

func (c *watchedContext) Value(any) any { return nil }

// However an AwaitRead ends, its caller's context, which may live for long, does not refer to it
// afterwards.
func TestAnAwaitReadLeavesNothingInItsContext(t *testing.T) {
	parent, cancel := context.WithCancel(t.Context())
	defer cancel()
	ctx := &watchedContext{Context: parent}
	p := onManualClock[string](t, purgatory.WithMaxPending(1))
	read := func(ok bool, err error, then func()) error {
		_, got := purgatory.AwaitRead(ctx, p, hour, func(context.Context) (int, bool, error) {
			assert.EqualValues(t, 1, ctx.watching.Load(), "the context of a read ends with ctx")
			then()
			return 0, ok, err
		}, "a")
		return got
	}
	nothing := func() {}
	require.NoError(t, read(true, nil, nothing))
	assert.Zero(t, ctx.watching.Load(), "it has read")
	require.ErrorIs(t, read(false, errGone, nothing), errGone)
	assert.Zero(t, ctx.watching.Load(), "it has failed")
	require.ErrorIs(t, read(false, nil, func() { p.CancelForKey("a", errGone) }), errGone)
	assert.Zero(t, ctx.watching.Load(), "it was cancelled")
	o := submitted(t, p, "b")
	require.ErrorIs(t, read(true, nil, nothing), purgatory.ErrFull)
	assert.Zero(t, ctx.watching.Load(), "it was refused")
	p.ForceComplete(o)
	empty(t, p)
}
