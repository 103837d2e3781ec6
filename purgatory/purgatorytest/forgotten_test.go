package purgatorytest

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/internal/purgatorytest/forgotten"
	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/timer"
)

// request is an operation whose methods a test supplies. Without a function for TryComplete, its
// condition is what met says.
type request struct {
	operation.DelayedOperation
	met      atomic.Bool
	try      func() bool
	complete func()
	tries    atomic.Int32
}

func (r *request) TryComplete() bool {
	r.tries.Add(1)
	if r.try != nil {
		return r.try()
	}
	return r.met.Load()
}

func (r *request) OnComplete() {
	if r.complete != nil {
		r.complete()
	}
}

func (r *request) OnExpiration() {}

// timely is a request whose condition depends on time itself.
type timely struct{ request }

func (*timely) DependsOnTime() {}

// wait registers op, which must wait.
func wait(t testing.TB, p *Purgatory[string], op operation.Operation, keys ...string) {
	t.Helper()
	completed, err := p.TryCompleteElseWatch(op, time.Minute, keys...)
	assert.NoError(t, err)
	assert.False(t, completed)
}

// until returns a request that waits for keys.
func until(t testing.TB, p *Purgatory[string], keys ...string) *request {
	t.Helper()
	r := &request{}
	wait(t, p, r, keys...)
	return r
}

// A server that changes its state and forgets the check fails its test, which names the operation and
// the key.
func TestAForgottenCheckFailsTheTest(t *testing.T) {
	said := record(func(rt testing.TB) {
		p := New[string](rt)
		var replicated atomic.Bool
		answer := make(chan error, 1)
		go func() { answer <- p.Await(context.Background(), time.Minute, replicated.Load, "orders") }()
		p.WaitPending(1)
		replicated.Store(true)
		p.JustAfter(time.Minute)
		assert.NoError(t, <-answer, "a yes is not dropped")
	})
	assert.Equal(t, []string{"purgatorytest: 1 operations were ready at their timeout: state has changed, and no check came after that:" +
		"\n\t*purgatory.await waited for orders, and no check or signal names this key"}, said)
}

// The failure says what is known of the checks: nobody has to guess whether one is missing, came too early, or not far enough.
func TestTheFailureSaysWhatIsKnownOfTheChecks(t *testing.T) {
	type server = *Purgatory[string]
	check, upTo := func(p server) { p.CheckAndComplete("log") }, func(n int64) func(p server) {
		return func(p server) { p.CheckAndCompleteUpTo("log", n) }
	}
	for name, c := range map[string]struct {
		first, then, later func(p server) // before it waits, while it does, and when it has ended
		position           int64
		says               string
	}{
		"nothing":             {nil, nil, nil, 18, "log, and no check or signal names this key"},
		"off by one":          {nil, upTo(17), nil, 18, "position 18 of log (checked once, up to position 17)"},
		"off by one, often":   {upTo(16), upTo(17), upTo(18), 18, "position 18 of log (checked 2 times, up to position 17)"},
		"less far later":      {upTo(17), upTo(16), nil, 18, "position 18 of log (checked 2 times, up to position 17)"},
		"less than zero":      {nil, upTo(-19), nil, -18, "position -18 of log (checked once, up to position -19)"},
		"so far, before":      {upTo(18), nil, nil, 18, "position 18 of log (checked once, up to position 18): no check came while it waited"},
		"signals, off by one": {nil, func(p server) { p.SignalUpTo("log", 17) }, nil, 18, "position 18 of log (checked once, up to position 17)"},
		"before the change":   {nil, check, check, purgatory.AnyPosition, "log (checked once): its condition was not true when it was checked"},
		"a signal before it":  {nil, func(p server) { p.Signal("log") }, nil, 18, "position 18 of log (checked once): its condition was not true when it was checked"},
		"far enough, before":  {nil, upTo(19), nil, 18, "position 18 of log (checked once, up to position 19): its condition was not true when it was checked"},
		"before it waits":     {check, nil, nil, 18, "position 18 of log (checked once): no check came while it waited"},
		"too late":            {nil, nil, check, purgatory.AnyPosition, "log (checked later only)"},
	} {
		t.Run(name, func(t *testing.T) {
			said := record(func(rt testing.TB) {
				p := New[string](rt)
				do := func(f func(p server)) {
					for f != nil && !p.judge.AtRest() {
						runtime.Gosched()
					}
					if f != nil {
						f(p)
					}
				}
				do(c.first)
				r := &request{}
				_, err := p.TryCompleteElseWatchAt(r, time.Minute, purgatory.KeyPosition[string]{Key: "log", Position: c.position})
				assert.NoError(t, err)
				do(c.then)
				for !p.judge.AtRest() {
					runtime.Gosched()
				}
				r.met.Store(true)
				p.JustAfter(time.Minute)
				assert.Equal(t, operation.Satisfied, r.Outcome(), "a yes is not dropped")
				do(c.later)
			})
			assert.Equal(t, []string{"purgatorytest: 1 operations were ready at their timeout: state has changed, and no check came after that:" +
				"\n\t*purgatorytest.request waited for " + c.says}, said)
		})
	}
}

// A program of its own is told of each finding, and may ask whether a check is under way.
func TestAJudgeTellsWhatItFinds(t *testing.T) {
	var told []string
	judge := forgotten.New(func(text string) { told = append(told, text) })
	clock, err := timer.NewManualTimer()
	require.NoError(t, err)
	p, err := purgatory.New[string]("test", purgatory.WithTimer(clock), purgatory.WithHook(judge.Hook()))
	require.NoError(t, err)
	defer p.Close()
	rest := map[bool]int{}
	r := &request{}
	r.try = func() bool {
		rest[judge.AtRest()]++
		return r.met.Load()
	}
	_, err = p.TryCompleteElseWatch(r, time.Minute, "orders")
	require.NoError(t, err)
	assert.Equal(t, map[bool]int{true: 2}, rest, "a registration is no check")
	assert.Zero(t, p.CheckAndComplete("orders"))
	assert.Equal(t, map[bool]int{true: 2, false: 1}, rest)
	assert.True(t, judge.AtRest())
	r.met.Store(true)
	p.AdvanceClock(time.Minute)
	assert.Equal(t, operation.Satisfied, r.Outcome())
	require.Len(t, told, 1)
	assert.Contains(t, told[0], "*purgatorytest.request waited for orders (checked once): its condition was not true")
}

// What a server does check, it is not blamed for.
func TestACheckedServerPasses(t *testing.T) {
	assert.Empty(t, record(func(rt testing.TB) {
		p := New[string](rt)
		checked, signalled := until(t, p, "a", "conn-1"), until(t, p, "b", "conn-1")
		never, timed := until(t, p, "c"), &timely{}
		wait(t, p, timed, "d")
		checked.met.Store(true)
		p.CheckAndComplete("a")
		signalled.met.Store(true)
		p.Signal("b") // which AdvanceClock lets a worker follow
		timed.met.Store(true)
		p.JustAfter(time.Minute)
		assert.Equal(t, operation.Satisfied, checked.Outcome())
		assert.Equal(t, operation.Satisfied, signalled.Outcome())
		assert.Equal(t, operation.Expired, never.Outcome())
		assert.EqualValues(t, 3, never.tries.Load(), "it was looked at")
		assert.Equal(t, operation.Expired, timed.Outcome(), "its condition depends on time: it is left alone")
		_, err := p.StartWait(time.Minute, p.ready, "e")
		assert.NoError(t, err)
		assert.ErrorIs(t, p.Await(context.Background(), 0, p.ready, "e"), purgatory.ErrExpired)
		p.JustAfter(time.Minute)
	}))
}

func (p *Purgatory[K]) ready() bool { return false }

// A key that no check and no signal ever names, as that of a connection, is not to blame where the
// operation has others. The names may come later.
func TestTheKeysThatAreCheckedAreToBlame(t *testing.T) {
	said := record(func(rt testing.TB) {
		p := New[string](rt)
		for _, keys := range [][]string{{"conn-7", "orders", "payments"}, {"conn-7", "audit"}} {
			until(t, p, keys...).met.Store(false)
		}
		r, s := until(t, p, "conn-7", "orders", "payments"), until(t, p, "conn-7", "audit", "bills")
		r.met.Store(true)
		s.met.Store(true)
		p.JustAfter(time.Minute)
		until(t, p, "conn-7", "orders")
		p.CheckAndComplete("orders")
		p.CancelForKey("conn-7", nil)
		assert.True(t, p.judge.AtRest(), "all of them are over")
	})
	require.Len(t, said, 1)
	assert.Contains(t, said[0], ": 2 operations were ready")
	assert.Contains(t, said[0], " waited for orders (checked later only)\n")
	assert.Contains(t, said[0], " waited for conn-7, audit, bills, and no check or signal names one of these keys")
}

// A check, a signal or a cancellation that has not come to an operation yet is none that was
// forgotten: it is under way. Each is stopped in the operation that stands before.
func TestACheckThatIsUnderWayIsNotForgotten(t *testing.T) {
	for name, c := range map[string]struct {
		begin func(p *Purgatory[string], stop func())
		key   string
	}{
		"a check halfway":         {func(p *Purgatory[string], _ func()) { p.CheckAndComplete("a") }, "a"},
		"a check of another key":  {func(p *Purgatory[string], _ func()) { p.CheckAndComplete("a", "b") }, "b"},
		"a signal that was taken": {func(p *Purgatory[string], _ func()) { p.Signal("a") }, "a"},
		"a signal that waits":     {func(p *Purgatory[string], _ func()) { p.Signal("a"); p.Signal("b") }, "b"},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Empty(t, record(func(rt testing.TB) {
				p := New[string](rt, purgatory.WithWorkers(1))
				before := &request{}
				inside, goOn := make(chan struct{}), make(chan struct{})
				var once sync.Once
				stop := func() {
					once.Do(func() {
						close(inside)
						<-goOn
					})
				}
				before.try = func() bool {
					if before.tries.Load() > 2 {
						stop()
					}
					return false
				}
				_, err := p.TryCompleteElseWatch(before, time.Hour, "a")
				assert.NoError(t, err)
				r := until(t, p, c.key)
				var under sync.WaitGroup
				under.Go(func() { c.begin(p, stop) })
				within(t, "the check", inside)
				r.met.Store(true)
				p.JustAfter(time.Minute)
				close(goOn)
				under.Wait()
				p.WaitPending(map[bool]int{true: 0, false: 1}[strings.Contains(name, "cancel")])
				p.Cancel(before, nil)
			}))
		})
	}
}

// A check of several keys that is over excuses nothing.
func TestACheckOfSeveralKeysThatIsOverIsNotUnderWay(t *testing.T) {
	said := record(func(rt testing.TB) {
		p := New[string](rt)
		p.CheckAndComplete("a", "b")
		r := until(t, p, "b")
		r.met.Store(true)
		p.JustAfter(time.Minute)
	})
	require.Len(t, said, 1)
	assert.Contains(t, said[0], " waited for b (checked once): no check came while it waited")
}

// Signals that race with the timeout are not forgotten, whoever comes first.
func TestASignalThatRacesWithTheTimeoutIsNotForgotten(t *testing.T) {
	for round := range 500 {
		require.Empty(t, record(func(rt testing.TB) {
			p := New[string](rt)
			var met atomic.Bool
			answers := make(chan error)
			for range 3 {
				go func() { answers <- p.Await(context.Background(), time.Minute, met.Load, "orders", "payments") }()
			}
			p.WaitPending(3)
			met.Store(true)
			p.Signal([]string{"orders", "payments"}[round%2])
			p.Purgatory.AdvanceClock(time.Hour) // does not wait for the worker
			for range 3 {
				if err := <-answers; err != nil {
					assert.ErrorIs(t, err, purgatory.ErrExpired)
				}
			}
		}))
	}
}

// A check that comes during the last look asks for a try, and was not forgotten.
func TestACheckDuringTheLastLookIsNotForgotten(t *testing.T) {
	assert.Empty(t, record(func(rt testing.TB) {
		p := New[string](rt)
		r := &request{}
		r.try = func() bool {
			if r.tries.Load() == 3 {
				p.CheckAndComplete("orders", "payments")
				return true
			}
			return false
		}
		wait(t, p, r, "orders")
		p.JustAfter(time.Minute)
		assert.Equal(t, operation.Satisfied, r.Outcome())
		p.misuse.mu.said = nil // the check is made here because that is the moment
	}))
}

// A panic or a Goexit in the last look does no harm.
func TestALastLookThatUnwindsEndsTheOperationAllTheSame(t *testing.T) {
	for name, unwind := range map[string]func(){"panic": func() { panic("of the test's") }, "goexit": runtime.Goexit} {
		var told atomic.Int32
		assert.Empty(t, record(func(rt testing.TB) {
			p := New[string](rt, purgatory.WithPanicHandler(func(any, []byte) { told.Add(1) }))
			r := &request{}
			r.try = func() bool {
				if r.tries.Load() == 3 {
					unwind()
				}
				return false
			}
			wait(t, p, r, "orders")
			p.JustAfter(time.Minute)
			assert.Equal(t, operation.Expired, r.Outcome())
		}))
		assert.Eventually(t, func() bool { return told.Load() == map[string]int32{"panic": 1}[name] }, time.Minute, time.Millisecond)
	}
}

// A failure names some of the operations, and counts the others.
func TestAFailureNamesSome(t *testing.T) {
	said := record(func(rt testing.TB) {
		p := New[string](rt)
		for range 50 {
			until(t, p, "orders").met.Store(true)
		}
		p.JustAfter(time.Minute)
	})
	require.Len(t, said, 1)
	assert.Contains(t, said[0], "50 operations were ready")
	assert.Contains(t, said[0], "\n\tand 30 more")
	assert.Equal(t, 20, strings.Count(said[0], " waited for orders"))
}
