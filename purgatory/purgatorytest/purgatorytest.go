// Package purgatorytest has a purgatory for tests of a server that uses one, as httptest
// has a server for tests of HTTP clients. Its clock stands still until the test moves it.
// It belongs to the test: it is closed when the test ends, and the test fails if an
// operation is still waiting then.
//
//	func TestProduceTimesOut(t *testing.T) {
//		p := purgatorytest.New[string](t)
//		s := &server{acks: p.Purgatory}
//		answer := make(chan error, 1)
//		go func() { answer <- s.produce(t.Context(), "order 1") }() // acks=all, 30 s
//
//		p.WaitPending(1)               // the handler waits
//		p.JustBefore(30 * time.Second) // it waits still
//		p.WaitPending(1)
//		p.JustAfter(30 * time.Second)  // it has timed out
//		if err := <-answer; !errors.Is(err, purgatory.ErrExpired) {
//			t.Errorf("got %v, want a timeout", err)
//		}
//	}
//
// # What else fails the test
//
// The server has changed its state and forgotten the check: an operation's condition is met when
// its timeout passes, and no check or signal of one of its keys is under way. To find that out,
// TryComplete is called once more; if it returns true, the operation ends as satisfied. The failure
// says what is known: how often the key was checked, up to which position, and whether a check came to the operation
// when its condition was not true yet. An operation whose condition depends on time itself has a method DependsOnTime, without a
// result; it is left alone.
//
// A TryComplete, or the function of an Await, checks a key. That runs the methods of other
// operations while this one is held, and so on along a graph of keys: it should call Signal.
//
// A TryComplete, OnComplete or OnExpiration calls Await. It panics, and the purgatory reports the
// panic: the goroutine that it would block may be the one that has to end its wait.
//
// A TryComplete waits for a lock, and nothing has moved for ten seconds of real time. Most likely a
// goroutine checks a key while it holds the lock that the condition takes. Such a test cannot go on:
// the program ends with the stack of that goroutine. A read lock is not found in that way, because two of them
// go together until a writer comes between: see [Purgatory.ConditionsTake].
//
// If the server also has timers, sleeps or context deadlines of its own, use
// [testing/synctest] with an ordinary purgatory instead: inside a bubble all of them run on
// the bubble's clock, and synctest.Wait takes the place of WaitPending.
package purgatorytest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/delayedop/purgatory/internal/purgatorytest/forgotten"
	"github.com/delayedop/purgatory/internal/testhook"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/timer"
)

// patience is how long WaitPending waits, in real time. The machine may be busy.
const patience = time.Minute

// tick is the resolution of the clock.
const tick = time.Millisecond

// Purgatory is a purgatory on a manual clock. Give the embedded one to the server under test; any
// goroutine may call its methods. Only the test's own goroutine may call the methods of
// this type and move the clock: with JustBefore and JustAfter, or by any distance with AdvanceClock.
type Purgatory[K comparable] struct {
	*purgatory.Purgatory[K]
	t     testing.TB
	clock *timer.ManualTimer

	// before is the time to which JustBefore has moved the clock, and from the time
	// before that move.
	from, before time.Duration

	judge   *forgotten.Judge
	misuse  misuse
	watch   watch
	writers writers
	refuse  atomic.Int64 // how many operations are to be refused
}

// New returns a purgatory whose clock stands at 0. When t and its subtests have ended, the
// purgatory is closed; if operations are pending then, t fails and names them.
//
// opts are options of [purgatory.New] other than [purgatory.WithTimer], which New sets
// itself, and [purgatory.WithTick]. If they are invalid, New
// ends the test.
func New[K comparable](t testing.TB, opts ...purgatory.Option) *Purgatory[K] {
	t.Helper()
	clock, err := timer.NewManualTimer(timer.WithTick(tick))
	if err != nil {
		t.Fatalf("purgatorytest: %v", err)
	}
	p := &Purgatory[K]{t: t, clock: clock, before: -1, judge: forgotten.New(nil)}
	p.Purgatory, err = purgatory.New[K](t.Name(), append(slices.Clone(opts), purgatory.WithTimer(clock), purgatory.WithHook(p.hook()))...)
	if err != nil {
		t.Fatalf("purgatorytest: %v", err)
	}
	t.Cleanup(p.end)
	return p
}

// hook returns the judge's hook, with what misuse and watch are to be told.
func (p *Purgatory[K]) hook() *testhook.Hook {
	h := p.judge.Hook()
	called, walk := h.Called, h.Walk
	h.Called = func(key any, upTo int64, signal bool) {
		called(key, upTo, signal)
		p.misuse.called(key, signal)
		if !signal {
			p.writers.wait()
		}
	}
	h.Walk = func(key any, n int) { walk(key, n); p.watch.move(n) }
	h.Await = p.misuse.awaits
	h.Refuse = p.refuses
	return h
}

// grace is how long waits may take to end after their context has ended. A test's context
// ends just before its cleanup functions run, and end is one of these.
const grace = time.Second

// end closes the purgatory, and fails the test if operations are pending.
func (p *Purgatory[K]) end() {
	for deadline := time.Now().Add(grace); p.NumDelayed() > 0 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	if n := p.NumDelayed(); n > 0 {
		p.t.Errorf("purgatorytest: at the end of the test %d still wait:%s", n, p.pending())
	}
	if found := p.judge.Findings(); len(found) > 0 {
		p.t.Errorf("purgatorytest: %d operations were ready at their timeout: state has changed, and no check came after that:%s", len(found), lines(found))
	}
	if n := p.refuse.Load(); n > 0 {
		p.t.Errorf("purgatorytest: %d of RefuseNext are left: no operation's condition was met as it was registered", n)
	}
	for _, text := range p.misuse.all() {
		p.t.Errorf("purgatorytest: %s", text)
	}
	p.watch.move(1)
	defer p.watch.move(-1)
	if err := p.Close(); err != nil {
		p.t.Errorf("purgatorytest: %v", err)
	}
}

// mostLines is how many operations a failure names.
const mostLines = 20

// lines returns each text on a line of its own.
func lines(texts []string) string {
	some := texts[:min(len(texts), mostLines)]
	text := "\n\t" + strings.Join(some, "\n\t")
	if more := len(texts) - len(some); more > 0 {
		text += fmt.Sprintf("\n\tand %d more", more)
	}
	return text
}

// rest is how long AdvanceClock waits, in real time, until no signal and no check is under way.
const rest = 100 * time.Millisecond

// AdvanceClock moves the clock by d, as that of the purgatory does. Before that it lets the signal
// workers end what they have begun, and so does each method that moves the clock: what was signalled
// has then been checked when a timeout passes. It waits for a callback that blocks a tenth of a
// second, no longer.
func (p *Purgatory[K]) AdvanceClock(d time.Duration) bool {
	pause := 10 * time.Microsecond
	for deadline := time.Now().Add(rest); !p.judge.AtRest() && time.Now().Before(deadline); {
		time.Sleep(pause)
		pause = min(2*pause, time.Millisecond)
	}
	p.watch.move(1)
	defer p.watch.move(-1)
	return p.Purgatory.AdvanceClock(d)
}

// WaitPending blocks until exactly n operations are pending: until n handlers have
// registered theirs, or all but n operations have ended. A handler that waits in Await
// counts as one operation. WaitPending does not move the clock. If a minute of real time
// passes, it ends the test and names the operations that are pending.
//
// WaitPending knows nothing of handlers that have not registered yet. If n operations are
// pending already, it returns at once.
func (p *Purgatory[K]) WaitPending(n int) {
	p.t.Helper()
	pause := 10 * time.Microsecond
	for deadline := time.Now().Add(patience); p.NumDelayed() != n || !p.registered(); {
		if time.Now().After(deadline) {
			p.t.Fatalf("purgatorytest: waited %v for %d pending operations, there are %d:%s", patience, n, p.NumDelayed(), p.pending())
		}
		time.Sleep(pause)
		pause = min(2*pause, 10*time.Millisecond)
	}
}

// registered reports whether all operations that are pending have been registered. While
// an operation is still being registered it counts as pending already, and if the clock
// moved past its timeout then, it would expire only when the clock is moved again.
func (p *Purgatory[K]) registered() bool { return p.judge.Hook().Registered() }

// JustBefore moves the clock to one nanosecond before timeout will have passed, counted
// from where the clock stands. An operation that was registered there with this timeout
// waits still. Operations with deadlines that are earlier by a tick (a millisecond) have expired when JustBefore
// returns, and their callbacks have run. A timeout of zero or less does not move the clock.
func (p *Purgatory[K]) JustBefore(timeout time.Duration) {
	p.from = p.clock.Now()
	p.AdvanceClock(max(timeout-1, 0))
	p.before = p.clock.Now()
}

// JustAfter moves the clock to where timeout has passed and an operation with this timeout
// has expired, which is one millisecond (one tick) past the timeout. When JustAfter returns
// the operation's callbacks have run, and a goroutine that waits in Await is about to
// return. (If another goroutine is running the operation's TryComplete at that moment, that
// goroutine ends the operation.)
//
// The timeout counts from where the clock stands. If nothing has moved the clock since a JustBefore, it counts
// from where JustBefore's timeout counts from, so that both can be given the same timeout.
func (p *Purgatory[K]) JustAfter(timeout time.Duration) {
	from := p.clock.Now()
	if from == p.before {
		from = p.from
	}
	p.before = -1
	p.AdvanceClock(max(max(timeout, 0)+tick-(p.clock.Now()-from), 0))
}

// ConditionsTake says that conditions of the server take mu, for reading or for writing. From then on a writer waits for mu when a check
// begins: so a goroutine that checks a key while it holds a read lock of mu blocks, as it does beside a writer in production, and
// the test ends as it does for any lock that a condition waits for.
func (p *Purgatory[K]) ConditionsTake(mu *sync.RWMutex) { p.writers.add(mu) }

// RefuseNext refuses the next operation whose condition is met as it is registered: the call returns an error that wraps
// [purgatory.ErrClosed], and no callback runs, as where the purgatory is closed at that moment. A condition that takes something, such as
// an item, has taken it by then, and only the server can give it back: the test looks whether it has. The test fails if no such
// operation comes. An Await, or another wait, whose condition is met at once is never refused.
func (p *Purgatory[K]) RefuseNext() { p.refuse.Add(1) }

// refuses reports whether the operation that asks is refused.
func (p *Purgatory[K]) refuses() bool {
	for {
		n := p.refuse.Load()
		if n == 0 || p.refuse.CompareAndSwap(n, n-1) {
			return n > 0
		}
	}
}

// Now returns how far the test has moved the clock.
func (p *Purgatory[K]) Now() time.Duration { return p.clock.Now() }

// pending describes the operations that wait, oldest first, a line each.
func (p *Purgatory[K]) pending() string {
	var s strings.Builder
	for _, o := range p.Inspect(mostLines).Oldest {
		left := "without a timeout"
		if o.Left < purgatory.NoTimeout {
			left = fmt.Sprintf("%v left of its timeout", o.Left)
		}
		fmt.Fprintf(&s, "\n\t%s waits for %s, %s", o.Type, o.Key, left)
	}
	return s.String()
}
