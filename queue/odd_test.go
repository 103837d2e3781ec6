package queue

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/timer"
)

// prying is a context of the user's, whose methods look at the queue.
type prying struct {
	context.Context
	look func()
}

func (p prying) Done() <-chan struct{}             { p.look(); return p.Context.Done() }
func (p prying) Err() error                        { p.look(); return p.Context.Err() }
func (p prying) Value(key any) any                 { p.look(); return p.Context.Value(key) }
func (p prying) Deadline() (d time.Time, set bool) { p.look(); return p.Context.Deadline() }

// Whatever becomes of a request, the queue holds no lock while it asks a context.
func TestAContextIsAskedWithNoLockHeld(t *testing.T) {
	live := func() (context.Context, context.CancelCauseFunc) { return context.WithCancelCause(background) }
	ended := func() (context.Context, context.CancelCauseFunc) {
		ctx, cancel := live()
		cancel(errCause)
		return ctx, cancel
	}
	for name, c := range map[string]struct {
		ctx  func() (context.Context, context.CancelCauseFunc)
		do   func(q *Queue[int], ctx context.Context, cancel context.CancelCauseFunc) error
		want error
	}{
		"served at once": {live, func(q *Queue[int], ctx context.Context, _ context.CancelCauseFunc) error {
			if err := q.Put(1); err != nil {
				return err
			}
			_, err := q.Take(ctx, time.Minute)
			return err
		}, nil},
		"has ended before": {ended, func(q *Queue[int], ctx context.Context, _ context.CancelCauseFunc) error {
			_, err := q.Take(ctx, time.Minute)
			return err
		}, errCause},
		"does not wait": {live, func(q *Queue[int], ctx context.Context, _ context.CancelCauseFunc) error {
			_, err := q.Take(ctx, 0)
			return err
		}, ErrExpired},
		"ends while it waits": {live, func(q *Queue[int], ctx context.Context, cancel context.CancelCauseFunc) error {
			left := make(chan error, 1)
			go func() {
				_, err := q.Take(ctx, timer.Never)
				left <- err
			}()
			synctest.Wait()
			cancel(errCause)
			return <-left
		}, errCause},
		"of a drain of nobody": {ended, func(q *Queue[int], ctx context.Context, _ context.CancelCauseFunc) error {
			return q.Shutdown(ctx)
		}, nil},
		"of a drain that is cut": {ended, func(q *Queue[int], ctx context.Context, _ context.CancelCauseFunc) error {
			if _, err := q.Start(timer.Never, nil); err != nil {
				return err
			}
			return q.Shutdown(ctx)
		}, errCause},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q, _ := manual[int](t)
				inner, cancel := c.ctx()
				defer cancel(nil)
				looks := 0
				ctx := prying{inner, func() {
					looks++
					if assert.True(t, q.mu.TryLock(), "the lock is held") {
						q.mu.Unlock()
					}
				}}
				require.ErrorIs(t, c.do(q, ctx, cancel), c.want)
				assert.Positive(t, looks)
				check(t, q)
			})
		})
	}
}
