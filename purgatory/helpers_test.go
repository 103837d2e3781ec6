package purgatory_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/delayedop/purgatory/internal/watchdog"
	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/timer"
)

// The files are named for what the library promises (docs/internals/proof.md). A test whose name begins with a public issue,
// as TestKAFKA3994 does, guards against a defect that another library had.

func TestMain(m *testing.M) {
	flag.Parse()
	if limit, ok := flag.Lookup("test.timeout").Value.(flag.Getter).Get().(time.Duration); ok && limit > 0 {
		patience = min(patience, limit/2)
		deadline = min(deadline, limit/3)
	}
	goleak.VerifyTestMain(unreachable{watchdog.Over(m)})
}

// unreachable runs the tests, and then asks the runtime for goroutines that wait for what nobody can reach any more, where the
// toolchain has that profile (Go 1.27, or GOEXPERIMENT=goroutineleakprofile). goleak sees every goroutine that is left, and
// not those that tests let it ignore.
type unreachable struct{ m watchdog.Tests }

func (u unreachable) Run() (status int) {
	status = u.m.Run()
	profile := pprof.Lookup("goroutineleak")
	if profile == nil || status != 0 {
		return status
	}
	var text bytes.Buffer
	if err := profile.WriteTo(&text, 1); err != nil || profile.Count() > 0 {
		fmt.Fprintln(os.Stderr, "goroutines that nobody can wake:", err, text.String())
		return 1
	}
	return 0
}

// howMany returns how many rounds or operations a test makes: many, or few under the race detector, where each costs several
// times as much.
func howMany(many, few int) int {
	if purgatory.RaceDetector {
		return few
	}
	return many
}

// patience is how long a test may take before it counts as stuck, as package watchdog has it. The machine may be busy. Where
// the whole run has little time, as with a seeded defect, it is shorter.
var patience = 5 * time.Minute

const hour = time.Hour

type (
	stringPurgatory = purgatory.Purgatory[string]
	intPurgatory    = purgatory.Purgatory[int]
)

// op is an operation whose methods a test supplies. Without them TryComplete returns false
// and the callbacks do nothing. op counts its calls.
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

// until returns an operation that waits until met is true.
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

// endsSoon is ended for an operation whose callbacks another goroutine runs.
func endsSoon(t *testing.T, o *op, outcome operation.Outcome) {
	t.Helper()
	eventually(t, func() bool {
		return o.completed.Load() == 1 && (outcome != operation.Expired || o.expired.Load() == 1)
	}, "its callbacks")
	ended(t, o, outcome)
}

// empty asserts that p holds no operation and no key. It waits for workers that are still
// ending the last operation.
func empty[K comparable](t *testing.T, p *purgatory.Purgatory[K]) {
	t.Helper()
	holds := func() bool {
		p.AdvanceClock(0) // purge
		return p.NumDelayed()+p.Watched()+int(p.Stats().Keys) > 0
	}
	for range 60_000 {
		if !holds() {
			return
		}
		time.Sleep(time.Millisecond)
	}
	assert.Zero(t, p.NumDelayed(), "pending")
	assert.Zero(t, p.Watched(), "watched")
	assert.Zero(t, p.Stats().Keys, "keys")
}

// conserved asserts that the number of accepted operations is that of the pending and of
// all outcomes, and returns the statistics.
func conserved[K comparable](t *testing.T, p *purgatory.Purgatory[K]) purgatory.Stats {
	t.Helper()
	s := p.Stats()
	assert.Equal(t, s.Accepted, s.Pending+s.Satisfied+s.Forced+s.Expired+s.Cancelled+s.Closed)
	return s
}

// onManualClock returns a purgatory on a manual clock.
func onManualClock[K comparable](t *testing.T, opts ...purgatory.Option) *purgatory.Purgatory[K] {
	t.Helper()
	clock, err := timer.NewManualTimer()
	require.NoError(t, err)
	return open[K](t, append([]purgatory.Option{purgatory.WithTimer(clock)}, opts...)...)
}

// open returns a purgatory that is closed when the test ends.
func open[K comparable](t *testing.T, opts ...purgatory.Option) *purgatory.Purgatory[K] {
	t.Helper()
	p, err := purgatory.New[K]("test", opts...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// submit registers o, which must be accepted and must not complete.
func submit[K comparable](t *testing.T, p *purgatory.Purgatory[K], o operation.Operation, timeout time.Duration, keys ...K) {
	t.Helper()
	completed, err := p.TryCompleteElseWatch(o, timeout, keys...)
	require.NoError(t, err)
	require.False(t, completed)
}

// submitted registers a new operation whose condition is never met, and returns it.
func submitted[K comparable](t *testing.T, p *purgatory.Purgatory[K], keys ...K) *op {
	t.Helper()
	o := &op{}
	submit(t, p, o, hour, keys...)
	return o
}

// gate is a place in user code at which a goroutine blocks until the test releases it.
type gate struct{ entered, leave chan struct{} }

func newGate() *gate { return &gate{make(chan struct{}), make(chan struct{})} }

// pass blocks until the test releases the gate. User code calls it.
func (g *gate) pass() {
	close(g.entered)
	<-g.leave
}

// inBackground runs f on another goroutine and returns a function that waits for the
// goroutine's end. f may call runtime.Goexit.
func inBackground(f func()) (wait func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	return func() { <-done }
}

// eventually polls until ok returns true.
func eventually(t *testing.T, ok func() bool, what string) {
	t.Helper()
	deadline := time.Now().Add(patience / 10 * 9)
	for looks := 1; !ok(); looks++ {
		if time.Now().After(deadline) {
			require.FailNow(t, "did not happen", what)
		}
		runtime.Gosched()
		if looks > 100 {
			time.Sleep(50 * time.Microsecond)
		}
	}
}

// panics counts the calls of a panic handler.
type panics struct{ n atomic.Int32 }

func (c *panics) option() purgatory.Option {
	return purgatory.WithPanicHandler(func(any, []byte) { c.n.Add(1) })
}

// inTime waits up to half a minute, for tests that a fault would otherwise keep for minutes.
func inTime(done func() bool) bool {
	for range 30_000 {
		if done() {
			return true
		}
		time.Sleep(time.Millisecond)
	}
	return false
}

// The contract, from outside: how an operation ends, in which order, and what is counted.

var errGone = errors.New("the leader is gone")

// deadline is how long tests wait for another goroutine.
var deadline = 30 * time.Second

// aWhile returns a context for a Shutdown that has little or nothing to wait for. It ends when the
// test counts as stuck.
func aWhile(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), min(time.Minute, patience/2))
	t.Cleanup(cancel)
	return ctx
}

// soon ends the run, with the stacks of all goroutines, if f does not return in time: what f waits
// for may keep the end of the test waiting, too.
func soon(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(patience / 10 * 8):
		stacks := make([]byte, 1<<20)
		fmt.Fprintf(os.Stderr, "--- FAIL: %s (did not happen: %s)\n%s", t.Name(), what, stacks[:runtime.Stack(stacks, true)])
		os.Exit(1)
	}
}

// probe is an operation that says yes when ready is set.
type probe struct {
	operation.DelayedOperation
	ready bool
	says  string
	while func() // it is tried, or describes itself
}

func (p *probe) TryComplete() bool { p.meanwhile(); return p.ready }
func (p *probe) OnComplete()       {}
func (p *probe) OnExpiration()     {}
func (p *probe) String() string    { p.meanwhile(); return p.says }

func (p *probe) meanwhile() {
	if p.while != nil {
		p.while()
	}
}

func probed(t *testing.T, p *purgatory.Purgatory[string], timeout time.Duration, keys ...string) *probe {
	t.Helper()
	op := &probe{}
	_, err := p.TryCompleteElseWatch(op, timeout, keys...)
	require.NoError(t, err)
	return op
}

// onEvent is a slog.Handler that is told the names of events.
type onEvent func(event string)

func (onEvent) Enabled(context.Context, slog.Level) bool          { return true }
func (f onEvent) Handle(_ context.Context, rec slog.Record) error { f(rec.Message); return nil }
func (f onEvent) WithAttrs([]slog.Attr) slog.Handler              { return f }
func (f onEvent) WithGroup(string) slog.Handler                   { return f }

// records is a slog.Handler that keeps what it is told.
type records struct {
	mu  sync.Mutex
	all []slog.Record
}

func (r *records) Enabled(context.Context, slog.Level) bool { return true }
func (r *records) WithAttrs([]slog.Attr) slog.Handler       { return r }
func (r *records) WithGroup(string) slog.Handler            { return r }

func (r *records) Handle(_ context.Context, rec slog.Record) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, rec)
	return nil
}

// find returns the attributes of the records of an event.
func (r *records) find(event string) (all []map[string]any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rec := range r.all {
		if rec.Message != event {
			continue
		}
		attrs := map[string]any{"level": rec.Level}
		rec.Attrs(func(a slog.Attr) bool {
			attrs[a.Key] = a.Value.Any()
			return true
		})
		all = append(all, attrs)
	}
	return all
}

// flagged is an operation that waits until its flag is set.
type flagged struct {
	operation.DelayedOperation
	flag  *atomic.Bool
	tries atomic.Int32
	done  func()
}

func (f *flagged) TryComplete() bool { f.tries.Add(1); return f.flag.Load() }
func (f *flagged) OnExpiration()     {}

func (f *flagged) OnComplete() {
	if f.done != nil {
		f.done()
	}
}
