package purgatorytest

import (
	"context"
	"math"
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
	name     string
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

func (r *request) OnExpiration()  {}
func (r *request) String() string { return r.name }

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
func until(t testing.TB, p *Purgatory[string], name string, keys ...string) *request {
	t.Helper()
	r := &request{name: name}
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
	assert.Equal(t, []string{"purgatorytest: 1 operations were ready at their timeout, and nobody had checked their keys:" +
		"\n\tAwait waited for orders, and no check or signal names this key"}, said)
}

// A check that comes before the change, or a signal, does not make up for the one that is forgotten,
// nor does one that comes afterwards.
func TestACheckBeforeTheChangeIsNotTheOneAfterIt(t *testing.T) {
	for name, check := range map[string]func(p *Purgatory[string]){
		"check":     func(p *Purgatory[string]) { p.CheckAndComplete("orders") },
		"up to":     func(p *Purgatory[string]) { p.CheckAndCompleteUpTo("orders", 7) },
		"in order":  func(p *Purgatory[string]) { p.CheckAndCompleteInOrder("orders") },
		"signal":    func(p *Purgatory[string]) { p.Signal("orders") },
		"signal up": func(p *Purgatory[string]) { p.SignalUpTo("orders", 7) },
		"signal in": func(p *Purgatory[string]) { p.SignalInOrder("orders") },
	} {
		t.Run(name, func(t *testing.T) {
			said := record(func(rt testing.TB) {
				p := New[string](rt)
				r := until(t, p, "produce 17", "orders")
				check(p)
				for !p.judge.AtRest() {
					runtime.Gosched()
				}
				r.met.Store(true)
				p.JustAfter(time.Minute)
				assert.Equal(t, operation.Satisfied, r.Outcome())
				check(p)
			})
			require.Len(t, said, 1)
			assert.Contains(t, said[0], "1 operations were ready at their timeout, and nobody had checked their keys:\n\tproduce 17 waited for orders")
			assert.NotContains(t, said[0], "no check or signal")
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
	r := &request{name: "produce 17"}
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
	assert.Contains(t, told[0], "produce 17 waited for orders")
}

// What a server does check, it is not blamed for.
func TestACheckedServerPasses(t *testing.T) {
	assert.Empty(t, record(func(rt testing.TB) {
		p := New[string](rt)
		checked, signalled := until(t, p, "checked", "a", "conn-1"), until(t, p, "signalled", "b", "conn-1")
		never, timed := until(t, p, "never", "c"), &timely{}
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
		keyless, err := p.StartWait(time.Minute, func() bool { return p.Now() > 2*time.Minute })
		assert.NoError(t, err)
		p.JustAfter(2 * time.Minute)
		assert.ErrorIs(t, keyless.Err(), purgatory.ErrExpired, "nobody can check it")
	}))
}

func (p *Purgatory[K]) ready() bool { return false }

// A key that no check and no signal ever names, as that of a connection, is not to blame where the
// operation has others. The names may come later.
func TestTheKeysThatAreCheckedAreToBlame(t *testing.T) {
	said := record(func(rt testing.TB) {
		p := New[string](rt)
		for _, keys := range [][]string{{"conn-7", "orders", "payments"}, {"conn-7", "audit"}} {
			until(t, p, "fetch of "+keys[1], keys...).met.Store(false)
		}
		r, s := until(t, p, "produce", "conn-7", "orders", "payments"), until(t, p, "typo", "conn-7", "audit")
		r.met.Store(true)
		s.met.Store(true)
		p.JustAfter(time.Minute)
		until(t, p, "gone", "conn-7", "orders")
		p.CheckAndComplete("orders")
		p.CancelForKey("conn-7", nil)
	})
	require.Len(t, said, 1)
	assert.Contains(t, said[0], ": 2 operations were ready")
	assert.Contains(t, said[0], "\n\tproduce waited for orders")
	assert.NotContains(t, said[0], "orders, ")
	assert.Contains(t, said[0], "\n\ttypo waited for conn-7, audit, and no check or signal names one of these keys")
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
		"a check in order":        {func(p *Purgatory[string], _ func()) { p.CheckAndCompleteInOrder("a") }, "a"},
		"a signal that was taken": {func(p *Purgatory[string], _ func()) { p.Signal("a") }, "a"},
		"a signal that waits":     {func(p *Purgatory[string], _ func()) { p.Signal("a"); p.Signal("b") }, "b"},
		"a cancellation": {func(p *Purgatory[string], stop func()) {
			p.CancelMatching("a", nil, func(op operation.Operation) bool { stop(); return op.(*request).name == "before" })
		}, "a"},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Empty(t, record(func(rt testing.TB) {
				p := New[string](rt, purgatory.WithSignalWorkers(1), purgatory.WithWatcherShards(1))
				before := &request{name: "before"}
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
				r := until(t, p, "produce 17", c.key)
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
		r := until(t, p, "produce 17", "b")
		r.met.Store(true)
		p.JustAfter(time.Minute)
	})
	require.Len(t, said, 1)
	assert.Contains(t, said[0], "produce 17 waited for b")
}

// A key that is not equal to itself, as a NaN, is never found: neither by a check nor by the judge.
func TestAKeyThatIsNotEqualToItselfIsJudgedToo(t *testing.T) {
	said := record(func(rt testing.TB) {
		p := New[float64](rt)
		r := &request{name: "produce 17"}
		_, err := p.TryCompleteElseWatch(r, time.Minute, math.NaN())
		assert.NoError(t, err)
		p.CheckAndComplete(math.NaN())
		r.met.Store(true)
		p.JustAfter(time.Minute)
		assert.Equal(t, operation.Satisfied, r.Outcome())
	})
	require.Len(t, said, 1)
	assert.Contains(t, said[0], "produce 17 waited for NaN, and no check or signal names this key")
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
			switch round % 3 {
			case 0:
				p.Signal("orders")
			case 1:
				p.Signal("payments")
			case 2:
				p.SignalInOrder("payments")
			}
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
		assert.EqualValues(t, map[string]int{"panic": 1}[name], told.Load())
	}
}

// After a check in order, an operation that is ready behind one that is not says what that means:
// the line stood. If it is the first, somebody has forgotten the check.
func TestALineThatStoodSaysSo(t *testing.T) {
	said := record(func(rt testing.TB) {
		p := New[string](rt)
		first := &request{name: "first"}
		_, err := p.TryCompleteElseWatch(first, time.Hour, "slots")
		assert.NoError(t, err)
		until(t, p, "second", "slots", "conn-2").met.Store(true)
		assert.Zero(t, p.CheckAndCompleteInOrder("slots"))
		p.JustAfter(time.Minute)
		p.Cancel(first, nil)
	})
	require.Len(t, said, 1)
	assert.Contains(t, said[0], "1 operations were ready at their timeout, and the line before them stood: CheckAndCompleteInOrder ends at")
	assert.Contains(t, said[0], "\n\tsecond waited for slots")

	said = record(func(rt testing.TB) {
		p := New[string](rt)
		first := until(t, p, "first", "slots")
		until(t, p, "second", "slots")
		assert.Zero(t, p.CheckAndCompleteInOrder("slots"))
		first.met.Store(true)
		p.JustAfter(time.Minute)
	})
	require.Len(t, said, 1)
	assert.Contains(t, said[0], "1 operations were ready at their timeout, and nobody had checked their keys:\n\tfirst waited for slots")
}

// With WithFirstInFirstOut the last look overtakes nobody: what is there is the first one's.
func TestTheLastLookOvertakesNobody(t *testing.T) {
	assert.Empty(t, record(func(rt testing.TB) {
		p := New[string](rt, purgatory.WithFirstInFirstOut())
		var items atomic.Int32
		take := func(want int32) func() bool {
			return func() bool { return items.Load() >= want && items.Add(-want) >= 0 }
		}
		big, small := &request{try: take(2)}, &request{try: take(1)}
		_, err := p.TryCompleteElseWatch(big, time.Hour, "items")
		assert.NoError(t, err)
		wait(t, p, small, "items")
		items.Store(1)
		p.CheckAndCompleteInOrder("items")
		p.JustAfter(time.Minute)
		assert.Equal(t, operation.Expired, small.Outcome())
		items.Add(1)
		p.CheckAndCompleteInOrder("items")
		assert.Equal(t, operation.Satisfied, big.Outcome())
	}))
}

// A failure names some of the operations, and counts the others.
func TestAFailureNamesSome(t *testing.T) {
	said := record(func(rt testing.TB) {
		p := New[string](rt)
		for range 50 {
			until(t, p, "produce", "orders").met.Store(true)
		}
		p.JustAfter(time.Minute)
	})
	require.Len(t, said, 1)
	assert.Contains(t, said[0], "50 operations were ready")
	assert.Contains(t, said[0], "\n\tand 30 more")
	assert.Equal(t, 20, strings.Count(said[0], "produce waited"))
}

// Its watch of the same key stands before an operation that names a key twice, and nobody else.
func TestAnOperationThatNamesAKeyTwiceIsTheFirst(t *testing.T) {
	for _, keys := range [][]string{{"a"}, {"a", "b"}, {"a", "a"}, {"a", "b", "a"}} {
		for name, options := range map[string][]purgatory.Option{"plain": nil, "in line": {purgatory.WithFirstInFirstOut()}} {
			said := record(func(rt testing.TB) {
				p := New[string](rt, options...)
				until(t, p, "alone", keys...).met.Store(true)
				p.JustAfter(time.Minute)
			})
			if assert.Len(t, said, 1, "%v, %s", keys, name) {
				assert.Contains(t, said[0], "nobody had checked")
			}
		}
	}
}
