package purgatorytest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/delayedop/purgatory/internal/watchdog"
	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(watchdog.Over(m)) }

// waits is an operation whose condition is never met.
type waits struct {
	operation.DelayedOperation
	ended int
}

func (o *waits) TryComplete() bool { return false }
func (o *waits) OnComplete()       { o.ended++ }
func (o *waits) OnExpiration()     {}

func submit(t *testing.T, p *Purgatory[string], timeout time.Duration) *waits {
	t.Helper()
	o := &waits{}
	completed, err := p.TryCompleteElseWatch(o, timeout, "orders")
	require.NoError(t, err)
	require.False(t, completed)
	return o
}

func TestTheClockStopsJustBeforeAndJustAfterATimeout(t *testing.T) {
	for _, timeout := range []time.Duration{1, time.Millisecond - 1, time.Millisecond, time.Millisecond + 1, 30 * time.Second, 24 * time.Hour} {
		for _, start := range []time.Duration{0, 1, time.Millisecond / 3, time.Hour + 7} {
			t.Run(fmt.Sprintf("%v after %v", timeout, start), func(t *testing.T) {
				p := New[string](t)
				p.AdvanceClock(start)
				first, second := submit(t, p, timeout), submit(t, p, timeout+2*time.Millisecond)
				p.JustBefore(timeout)
				assert.Equal(t, start+timeout-1, p.Now())
				assert.Equal(t, operation.Pending, first.Outcome())
				p.JustAfter(timeout)
				assert.Equal(t, operation.Expired, first.Outcome())
				assert.Equal(t, 1, first.ended)
				assert.Equal(t, operation.Pending, second.Outcome())

				// Without JustBefore directly before it, JustAfter counts from now.
				third := submit(t, p, timeout)
				p.JustAfter(timeout)
				assert.Equal(t, operation.Expired, third.Outcome())
				p.JustBefore(0)
				p.JustAfter(4 * time.Millisecond)
				p.JustBefore(time.Second)
				p.JustAfter(time.Millisecond) // the clock does not go back
				assert.Equal(t, operation.Expired, second.Outcome())
			})
		}
	}
}

func TestWaitPendingWaitsForHandlers(t *testing.T) {
	p := New[string](t)
	errs := make(chan error)
	for range 10 {
		go func() {
			runtime.Gosched()
			errs <- p.Await(t.Context(), time.Second, func() bool { return false }, "orders")
		}()
	}
	p.WaitPending(10)
	assert.Equal(t, 10, p.NumDelayed())
	p.JustBefore(time.Second)
	p.WaitPending(10)
	p.JustAfter(time.Second)
	for range 10 {
		select {
		case err := <-errs:
			assert.ErrorIs(t, err, purgatory.ErrExpired)
		case <-time.After(time.Minute):
			require.FailNow(t, "Await did not return")
		}
	}
	p.WaitPending(0)
}

// registering is an operation whose registration stops in its second try, when the
// purgatory counts the operation already.
type registering struct {
	waits
	tries         int
	inTry, resume chan struct{}
}

func (o *registering) TryComplete() bool {
	if o.tries++; o.tries == 2 {
		close(o.inTry)
		<-o.resume
	}
	return false
}

func TestWaitPendingWaitsForTheEndOfRegistration(t *testing.T) {
	p := New[string](t)
	o := &registering{inTry: make(chan struct{}), resume: make(chan struct{})}
	go func() {
		_, err := p.TryCompleteElseWatch(o, time.Second, "orders", "payments")
		assert.NoError(t, err)
	}()
	within(t, "the second try", o.inTry)
	assert.Equal(t, 1, p.NumDelayed())
	time.AfterFunc(10*time.Millisecond, func() { close(o.resume) })
	p.WaitPending(1)
	select {
	case <-o.resume:
	default:
		assert.Fail(t, "WaitPending returned during the registration")
	}
	p.JustAfter(time.Second)
	assert.Equal(t, operation.Expired, o.Outcome())
}

// within fails the test if done is not closed within a minute.
func within(t *testing.T, what string, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(time.Minute):
		require.FailNow(t, "a minute has passed without "+what)
	}
}

// recorder is a test that fails without failing the test that looks at it.
type recorder struct {
	testing.TB
	said    []string
	cleanup []func()
}

func (r *recorder) Helper()          {}
func (r *recorder) Name() string     { return "recorded" }
func (r *recorder) Cleanup(f func()) { r.cleanup = append(r.cleanup, f) }
func (r *recorder) Errorf(format string, args ...any) {
	r.said = append(r.said, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

// record runs f as a test of its own, with its cleanup, and returns how it failed.
func record(f func(t testing.TB)) []string {
	r := &recorder{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(r)
	}()
	<-done
	for _, f := range r.cleanup {
		f()
	}
	return r.said
}

func TestPendingOperationsFailTheTest(t *testing.T) {
	o := &waits{}
	said := record(func(rt testing.TB) {
		_, err := New[string](rt).TryCompleteElseWatch(o, time.Minute, "orders")
		assert.NoError(t, err)
	})
	require.Len(t, said, 1)
	for _, want := range []string{"1 still wait", "*purgatorytest.waits", "orders", "1m0s left"} {
		assert.Contains(t, said[0], want)
	}
	assert.Equal(t, operation.Closed, o.Outcome(), "the purgatory is closed with the test")

	assert.Empty(t, record(func(rt testing.TB) {
		p := New[string](rt)
		o := &waits{}
		_, err := p.TryCompleteElseWatch(o, time.Minute, "orders")
		assert.NoError(t, err)
		assert.True(t, p.Cancel(o, errors.New("gone")))
	}))
}

func TestWaitPendingFailsAfterAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		said := record(func(rt testing.TB) {
			p := New[string](rt)
			_, err := p.TryCompleteElseWatch(&waits{}, time.Minute, "orders")
			assert.NoError(t, err)
			p.WaitPending(2)
			assert.Fail(t, "unreachable")
		})
		require.Len(t, said, 2)
		assert.Contains(t, said[0], "waited 1m0s for 2 pending operations, there are 1")
		assert.Contains(t, said[0], "*purgatorytest.waits waits for orders")
		assert.Contains(t, said[1], "1 still wait")
	})
}

func TestInvalidOptionsEndTheTest(t *testing.T) {
	said := record(func(rt testing.TB) {
		New[string](rt, purgatory.WithWorkers(-3))
		assert.Fail(t, "unreachable")
	})
	require.Len(t, said, 1)
	assert.Contains(t, said[0], "-3")
}

// The test's context ends just before its cleanup: waits that end with it have left in time.
func TestAnAwaitMayEndWithTheTestsContext(t *testing.T) {
	for range 20 {
		var wait sync.WaitGroup
		t.Run("a handler still waits", func(t *testing.T) {
			p := New[string](t)
			wait.Go(func() {
				err := p.Await(t.Context(), time.Hour, func() bool { return false }, "orders")
				assert.ErrorIs(t, err, context.Canceled)
			})
			p.WaitPending(1)
		})
		wait.Wait()
	}
}
