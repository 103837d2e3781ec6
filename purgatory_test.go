package purgatory_test

import (
	"context"
	"errors"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/delayedop/purgatory/internal/watchdog"
	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/purgatory/purgatorytest"
)

// The contract of a purgatory, end to end and from outside. Each test is one promise, in
// its plain form. The tests of package purgatory try the same promises under load, under
// race and at their edges.

func TestMain(m *testing.M) { goleak.VerifyTestMain(watchdog.Over(m)) }

// request is an operation that a test controls: it is complete when ready is set.
type request struct {
	operation.DelayedOperation
	ready      atomic.Bool
	tries      int
	onComplete func()
	calls      []string
}

func (r *request) TryComplete() bool {
	r.tries++
	return r.ready.Load()
}

func (r *request) OnComplete() {
	r.calls = append(r.calls, "OnComplete: "+r.Outcome().String())
	if r.onComplete != nil {
		r.onComplete()
	}
}

func (r *request) OnExpiration() {
	r.calls = append(r.calls, "OnExpiration: "+r.Outcome().String())
}

// wait submits a new request, which has to wait.
func wait(t *testing.T, p *purgatorytest.Purgatory[string], timeout time.Duration, keys ...string) *request {
	t.Helper()
	r := &request{}
	completed, err := p.TryCompleteElseWatch(r, timeout, keys...)
	require.NoError(t, err)
	require.False(t, completed)
	return r
}

var errGone = errors.New("the leader is gone")

func TestAnOperationEndsOnceWithOneOutcome(t *testing.T) {
	ends := map[string]struct {
		end   func(p *purgatorytest.Purgatory[string], r *request)
		calls []string
		cause error
	}{
		"satisfied": {func(p *purgatorytest.Purgatory[string], r *request) {
			r.ready.Store(true)
			p.CheckAndComplete("orders-0")
		}, []string{"OnComplete: satisfied"}, nil},
		"forced": {func(p *purgatorytest.Purgatory[string], r *request) {
			p.ForceComplete(r)
		}, []string{"OnComplete: forced"}, nil},
		"expired": {func(p *purgatorytest.Purgatory[string], _ *request) {
			p.JustAfter(time.Second)
		}, []string{"OnComplete: expired", "OnExpiration: expired"}, nil},
		"cancelled": {func(p *purgatorytest.Purgatory[string], _ *request) {
			p.CancelForKey("orders-1", errGone)
		}, []string{"OnComplete: cancelled"}, errGone},
		"closed": {func(p *purgatorytest.Purgatory[string], _ *request) {
			_ = p.Close()
		}, []string{"OnComplete: closed"}, nil},
	}
	for name, way := range ends {
		t.Run(name, func(t *testing.T) {
			p := purgatorytest.New[string](t)
			r := wait(t, p, time.Second, "orders-0", "orders-1")
			way.end(p, r)
			assert.Equal(t, way.calls, r.calls)
			assert.Equal(t, way.cause, r.Cause())

			// Whatever comes after changes nothing, and nothing refers to the operation.
			for _, again := range ends {
				again.end(p, r)
			}
			assert.Equal(t, way.calls, r.calls)
			assert.Equal(t, name, r.Outcome().String())
			assert.Zero(t, p.NumDelayed()+p.Watched()+int(p.Stats().Keys))
		})
	}
}

func TestAConditionThatIsMetAtOnceDoesNotWait(t *testing.T) {
	p := purgatorytest.New[string](t)
	r := &request{}
	r.ready.Store(true)
	completed, err := p.TryCompleteElseWatch(r, time.Second, "orders-0")
	require.NoError(t, err)
	assert.True(t, completed)
	assert.Equal(t, []string{"OnComplete: satisfied"}, r.calls)
}

func TestARefusedOperationHasNoCallback(t *testing.T) {
	p := purgatorytest.New[string](t, purgatory.WithMaxPending(1))
	closed := purgatorytest.New[string](t)
	require.NoError(t, closed.Close())
	used := wait(t, p, time.Second, "orders-0")

	r, full := &request{}, &request{}
	for want, submit := range map[error]func() (bool, error){
		purgatory.ErrFull:         func() (bool, error) { return p.TryCompleteElseWatch(full, time.Second, "orders-0") },
		purgatory.ErrNoKeys:       func() (bool, error) { return p.TryCompleteElseWatch(r, time.Second) },
		purgatory.ErrNilOperation: func() (bool, error) { return p.TryCompleteElseWatch(nil, time.Second, "orders-0") },
		purgatory.ErrUsed:         func() (bool, error) { return p.TryCompleteElseWatch(used, time.Second, "orders-0") },
		purgatory.ErrClosed:       func() (bool, error) { return closed.TryCompleteElseWatch(r, time.Second, "orders-0") },
	} {
		completed, err := submit()
		assert.ErrorIs(t, err, want)
		assert.False(t, completed)
	}
	assert.Empty(t, append(r.calls, full.calls...))
	assert.True(t, p.ForceComplete(used))
	_, err := p.TryCompleteElseWatch(full, time.Second, "orders-0")
	require.ErrorIs(t, err, purgatory.ErrUsed, "an operation is used once, also one that was refused")
}

func TestATimeoutIsNeverEarlyAndCanBeExtended(t *testing.T) {
	p := purgatorytest.New[string](t)
	r := wait(t, p, 30*time.Second, "session-7")
	p.JustBefore(30 * time.Second)
	assert.Equal(t, operation.Pending, r.Outcome())
	assert.True(t, p.Extend(r, 30*time.Second), "a heartbeat")
	p.JustBefore(30 * time.Second)
	assert.Equal(t, operation.Pending, r.Outcome())
	p.JustAfter(30 * time.Second)
	assert.Equal(t, operation.Expired, r.Outcome())
	assert.False(t, p.Extend(r, time.Hour), "it has ended")

	forever := wait(t, p, math.MaxInt64, "session-8")
	p.JustAfter(100 * 365 * 24 * time.Hour)
	assert.True(t, p.ForceComplete(forever))
}

func TestACheckOfAnyKeyTriesTheOperation(t *testing.T) {
	p := purgatorytest.New[string](t)
	r := wait(t, p, time.Second, "orders-0", "orders-1")
	assert.Equal(t, []int{1, 2, 2}, []int{p.NumDelayed(), p.Watched(), int(p.Stats().Keys)})
	tries := r.tries
	p.CheckAndComplete("orders-2")
	assert.Equal(t, tries, r.tries, "a key that it does not wait for")
	p.CheckAndComplete("orders-0", "orders-1")
	assert.Greater(t, r.tries, tries)
	r.ready.Store(true)
	assert.Equal(t, 1, p.CheckAndComplete("orders-1"))
}

func TestOperationsOfAKeyAreTriedInOrder(t *testing.T) {
	p := purgatorytest.New[string](t)
	var order []int
	for i := range 5 {
		r := wait(t, p, time.Second, "lock")
		r.ready.Store(true)
		r.onComplete = func() { order = append(order, i) }
	}
	assert.Equal(t, 5, p.CheckAndComplete("lock"))
	assert.Equal(t, []int{0, 1, 2, 3, 4}, order)
}

func TestOnlyReachedPositionsAreEnded(t *testing.T) {
	p := purgatorytest.New[string](t)
	produces := make([]*request, 100)
	for offset := range produces {
		produces[offset] = &request{}
		_, err := p.TryCompleteElseWatchAt(produces[offset], time.Second, purgatory.KeyPosition[string]{Key: "orders-0", Position: int64(offset)})
		require.NoError(t, err)
		produces[offset].ready.Store(true)
	}
	assert.Equal(t, 31, p.CheckAndCompleteUpTo("orders-0", 30), "the high watermark is 30")
	assert.Equal(t, operation.Pending, produces[31].Outcome())
	assert.Equal(t, 69, p.CheckAndComplete("orders-0"))
}

// A change of state that comes between the first try and the watch is seen.
func TestNoWakeUpIsLostDuringRegistration(t *testing.T) {
	p := purgatorytest.New[string](t)
	r := &changing{}
	completed, err := p.TryCompleteElseWatch(r, time.Second, "orders-0")
	require.NoError(t, err)
	assert.True(t, completed, "the second try, after the operation was watched, sees the change")
}

// changing is an operation whose condition becomes true just after its first try, too
// early for anybody's check to find it.
type changing struct {
	request
}

func (c *changing) TryComplete() bool { return c.request.TryComplete() || c.ready.Swap(true) }

func TestCallbacksMayCallThePurgatory(t *testing.T) {
	p := purgatorytest.New[string](t)
	first, second := wait(t, p, time.Second, "a"), wait(t, p, time.Second, "b")
	third := wait(t, p, time.Second, "a")
	first.onComplete = func() {
		second.ready.Store(true)
		assert.Equal(t, 1, p.CheckAndComplete("b"))
		assert.True(t, p.Cancel(third, errGone))
		_, err := p.TryCompleteElseWatch(&request{}, time.Second, "c")
		assert.NoError(t, err)
		assert.NoError(t, p.Close())
	}
	assert.True(t, p.ForceComplete(first))
	assert.Equal(t, []string{"OnComplete: satisfied"}, second.calls)
	assert.Equal(t, []string{"OnComplete: cancelled"}, third.calls)
	assert.Zero(t, p.NumDelayed())
}

// Each operation registers and completes the next one from its OnComplete. The stack stays small.
func TestAChainOfCompletionsHasNoLimit(t *testing.T) {
	const length = 100_000
	p, err := purgatory.New[int]("chain")
	require.NoError(t, err)
	var deepest atomic.Int64
	done := make(chan struct{})
	var link func(i int)
	link = func(i int) {
		if i == length {
			close(done)
			return
		}
		if i%1000 == 0 {
			deepest.Store(max(deepest.Load(), int64(runtime.Callers(0, make([]uintptr, length)))))
		}
		next := &request{onComplete: func() { link(i + 1) }}
		_, err := p.TryCompleteElseWatch(next, time.Hour, i%8)
		assert.NoError(t, err)
		next.ready.Store(true)
		p.CheckAndComplete(i % 8)
	}
	link(0)
	<-done
	assert.Less(t, deepest.Load(), int64(10_000), "frames")
	require.NoError(t, p.Shutdown(t.Context()))
}

func TestAPanicStopsNoOtherOperation(t *testing.T) {
	recovered := make(chan any, 1)
	p := purgatorytest.New[string](t, purgatory.WithPanicHandler(func(r any, _ []byte) { recovered <- r }))
	first, second := wait(t, p, time.Second, "a"), wait(t, p, time.Second, "a")
	first.onComplete = func() { panic("a bug") }
	first.ready.Store(true)
	second.ready.Store(true)
	assert.Equal(t, 2, p.CheckAndComplete("a"))
	assert.Equal(t, []string{"OnComplete: satisfied"}, second.calls)
	assert.Equal(t, "a bug", <-recovered)
}

// CheckAndComplete runs callbacks on the caller's goroutine. Under a lock that a callback takes, there is Signal.
func TestSignalWorksUnderALock(t *testing.T) {
	p, err := purgatory.New[string]("groups")
	require.NoError(t, err)
	var mu sync.Mutex
	answered := make(chan struct{})
	r := &request{onComplete: func() { mu.Lock(); defer mu.Unlock(); close(answered) }}
	_, err = p.TryCompleteElseWatch(r, time.Hour, "group")
	require.NoError(t, err)
	mu.Lock()
	r.ready.Store(true)
	p.Signal("group") // a worker makes the check
	mu.Unlock()
	<-answered
	require.NoError(t, p.Shutdown(t.Context()))
}

func TestAwaitBlocksTheHandler(t *testing.T) {
	p := purgatorytest.New[string](t)
	for name, way := range map[string]struct {
		end  func(offset *atomic.Int64, leave context.CancelCauseFunc)
		want error
	}{
		"news": {func(offset *atomic.Int64, _ context.CancelCauseFunc) {
			offset.Store(1)
			p.CheckAndComplete("news")
		}, nil},
		"timeout":     {func(*atomic.Int64, context.CancelCauseFunc) { p.JustAfter(time.Second) }, purgatory.ErrExpired},
		"cancelled":   {func(*atomic.Int64, context.CancelCauseFunc) { p.CancelForKey("news", errGone) }, errGone},
		"client gone": {func(_ *atomic.Int64, leave context.CancelCauseFunc) { leave(errGone) }, errGone},
	} {
		t.Run(name, func(t *testing.T) {
			var offset atomic.Int64
			ctx, leave := context.WithCancelCause(t.Context())
			defer leave(nil)
			answer := make(chan error)
			go func() {
				answer <- p.Await(ctx, time.Second, func() bool { return offset.Load() > 0 }, "news")
			}()
			p.WaitPending(1)
			way.end(&offset, leave)
			if err := <-answer; way.want == nil {
				assert.NoError(t, err)
			} else {
				assert.ErrorIs(t, err, way.want)
			}
			assert.Zero(t, p.NumDelayed())
		})
	}
}

func TestAnotherPurgatorysOperationIsRefused(t *testing.T) {
	produce, fetch := purgatorytest.New[string](t), purgatorytest.New[string](t)
	r := wait(t, produce, time.Second, "orders-0")
	assert.False(t, fetch.Extend(r, time.Hour))
	assert.False(t, fetch.Cancel(r, errGone))
	assert.False(t, fetch.ForceComplete(r))
	assert.Empty(t, r.calls)
	assert.True(t, produce.ForceComplete(r))
}

// On the system's clock, inside a bubble in which time passes at once.
func TestShutdownWaitsForPendingOperations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := purgatory.New[string]("test")
		require.NoError(t, err)
		short, long := &request{}, &request{}
		_, err = p.TryCompleteElseWatch(short, time.Second, "a")
		require.NoError(t, err)
		_, err = p.TryCompleteElseWatch(long, time.Hour, "a")
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		assert.ErrorIs(t, p.Shutdown(ctx), context.DeadlineExceeded)
		assert.Equal(t, []string{"OnComplete: expired", "OnExpiration: expired"}, short.calls)
		synctest.Wait()
		assert.Equal(t, []string{"OnComplete: closed"}, long.calls)
		s := p.Stats()
		assert.Equal(t, []int64{2, 1, 1, 0}, []int64{s.Accepted, s.Expired, s.Closed, s.Pending})
	})
}
