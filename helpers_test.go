package purgatory_test

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/timer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const hour = time.Hour

type (
	stringPurgatory = purgatory.DelayedOperationPurgatory[string]
	intPurgatory    = purgatory.DelayedOperationPurgatory[int]
)

// op is an operation whose methods a test supplies; what it leaves out says no, or
// does nothing. It counts its callbacks.
type op struct {
	operation.DelayedOperation

	try      func() bool
	complete func()
	expire   func()

	tries, completed, expired atomic.Int32
}

func (o *op) TryComplete() bool {
	o.tries.Add(1)
	return o.try != nil && o.try()
}

func (o *op) OnComplete() {
	o.completed.Add(1)
	if o.complete != nil {
		o.complete()
	}
}

func (o *op) OnExpiration() {
	o.expired.Add(1)
	if o.expire != nil {
		o.expire()
	}
}

// until returns an operation whose condition is that met is true.
func until(met *atomic.Bool) *op { return &op{try: met.Load} }

// pending asserts that o waits and has seen no callback.
func pending(t *testing.T, o *op) {
	t.Helper()
	assert.Equal(t, operation.Pending, o.Outcome())
	assert.Zero(t, o.completed.Load(), "OnComplete")
	assert.Zero(t, o.expired.Load(), "OnExpiration")
}

// ended asserts that o ended once, with outcome, and that its callbacks have run.
func ended(t *testing.T, o *op, outcome operation.Outcome) {
	t.Helper()
	assert.Equal(t, outcome, o.Outcome())
	assert.EqualValues(t, 1, o.completed.Load(), "OnComplete")
	expirations := 0
	if outcome == operation.Expired {
		expirations = 1
	}
	assert.EqualValues(t, expirations, o.expired.Load(), "OnExpiration")
}

// empty asserts that p holds nothing.
func empty[K comparable](t *testing.T, p *purgatory.DelayedOperationPurgatory[K]) {
	t.Helper()
	p.AdvanceClock(0) // what was left to the purge
	assert.Zero(t, p.NumDelayed(), "pending")
	assert.Zero(t, p.Watched(), "watched")
	assert.Zero(t, p.Keys(), "keys")
}

// conserved asserts that every accepted operation is pending or has ended, by its
// outcome, and returns the statistics.
func conserved[K comparable](t *testing.T, p *purgatory.DelayedOperationPurgatory[K]) purgatory.Stats {
	t.Helper()
	s := p.Stats()
	assert.Equal(t, s.Accepted, s.Pending+s.Satisfied+s.Forced+s.Expired+s.Cancelled+s.Closed)
	return s
}

// onManualClock returns a purgatory whose time stands still.
func onManualClock[K comparable](t *testing.T, opts ...purgatory.Option) *purgatory.DelayedOperationPurgatory[K] {
	t.Helper()
	clock, err := timer.NewManualTimer()
	require.NoError(t, err)
	return open[K](t, append([]purgatory.Option{purgatory.WithTimer(clock)}, opts...)...)
}

// open returns a purgatory that is closed with the test.
func open[K comparable](t *testing.T, opts ...purgatory.Option) *purgatory.DelayedOperationPurgatory[K] {
	t.Helper()
	p, err := purgatory.New[K]("test", opts...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// submit has o wait; it must neither be refused nor complete.
func submit[K comparable](t *testing.T, p *purgatory.DelayedOperationPurgatory[K], o operation.Operation, timeout time.Duration, keys ...K) {
	t.Helper()
	completed, err := p.TryCompleteElseWatch(o, timeout, keys...)
	require.NoError(t, err)
	require.False(t, completed)
}

// submitted returns a new operation that waits for ever until somebody ends it.
func submitted[K comparable](t *testing.T, p *purgatory.DelayedOperationPurgatory[K], keys ...K) *op {
	t.Helper()
	o := &op{}
	submit(t, p, o, hour, keys...)
	return o
}

// gate is a place in user code at which a test holds a goroutine.
type gate struct{ entered, leave chan struct{} }

func newGate() *gate { return &gate{make(chan struct{}), make(chan struct{})} }

// pass is called by user code: it says that it is there and waits.
func (g *gate) pass() {
	close(g.entered)
	<-g.leave
}

// inBackground runs f on another goroutine, and returns what waits for its end.
// f may end it by runtime.Goexit.
func inBackground(f func()) (wait func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	return func() { <-done }
}

// eventually waits until ok says yes, for what happens on a worker.
func eventually(t *testing.T, ok func() bool, what string) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); {
		if time.Now().After(deadline) {
			require.FailNow(t, "did not happen", what)
		}
		runtime.Gosched()
		time.Sleep(50 * time.Microsecond)
	}
}

// panics counts what a panic handler is told.
type panics struct{ n atomic.Int32 }

func (c *panics) option() purgatory.Option {
	return purgatory.WithPanicHandler(func(any, []byte) { c.n.Add(1) })
}
