//go:build interleave

package interleave

import (
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/timer"
	"github.com/delayedop/purgatory/watchers"
)

// timeout is the operation's, longer the one that extend asks for.
const (
	timeout = 10 * time.Millisecond
	longer  = 20 * time.Millisecond
)

// env is one execution of a scenario: a purgatory on a manual clock, one operation that
// waits for one key or for two, and what has been seen of it. One goroutine runs at a
// time, so that nothing here needs a lock.
type env struct {
	p     *purgatory.DelayedOperationPurgatory[int]
	clock *timer.ManualTimer
	spawn func(string, func())
	keys  []int
	op    *op
	other *op // in a few scenarios: waits for the first key only

	// another is where an operation goes that p has refused.
	another *purgatory.DelayedOperationPurgatory[string]

	facts    []bool         // one per key: what the conditions look at
	ended    map[string]int // by verb: how many it says it has ended
	closed   bool
	failures []error
}

func (e *env) fail(format string, args ...any) {
	e.failures = append(e.failures, fmt.Errorf(format, args...))
}

// op wants all facts that somebody in the scenario is going to set; if there are none
// it is never satisfied.
type op struct {
	operation.DelayedOperation
	e    *env
	keys []int
	want []bool // by key

	accepted bool
	refused  int
	moved    bool          // to another
	mustEnd  bool          // somebody has asked for an end that must not be lost
	promised time.Duration // by Extend: it does not expire before
	deadline time.Duration // and not later; the clock is read while others move it

	tries           int
	triesThere      int // of them, until it was accepted by another
	trying, calling bool
	completed       int
	expired         int
	outcome         operation.Outcome
	completedAt     time.Duration
}

func (o *op) satisfied() bool {
	any := false
	for i, want := range o.want {
		sched.Yield()
		if want && !o.e.facts[i] {
			return false
		}
		any = any || want
	}
	return any
}

func (o *op) TryComplete() bool {
	o.tries++
	if o.trying || o.calling || o.completed > 0 {
		o.e.fail("TryComplete overlaps itself or a callback, or follows OnComplete")
	}
	o.trying = true
	yes := o.satisfied()
	sched.Yield()
	o.trying = false
	return yes
}

func (o *op) OnComplete() {
	if o.trying || o.calling {
		o.e.fail("OnComplete overlaps TryComplete or a callback")
	}
	o.calling = true
	o.completed++
	o.outcome = o.Outcome()
	o.completedAt = o.e.clock.Now()
	if o.outcome == operation.Pending {
		o.e.fail("OnComplete of an operation without an outcome")
	}
	if o.outcome == operation.Cancelled && !errors.Is(o.Cause(), errCause) {
		o.e.fail("cancelled with cause %v", o.Cause())
	}
	o.calling = false
}

func (o *op) OnExpiration() {
	if o.trying || o.calling || o.completed != 1 || o.outcome != operation.Expired {
		o.e.fail("OnExpiration overlaps, comes before OnComplete, or the outcome is %v", o.outcome)
	}
	o.expired++
}

var errCause = errors.New("cause")

// newEnv makes everything anew. Two keys are on two shards.
func newEnv(keys int, want []bool, spawn func(string, func())) *env {
	e := &env{spawn: spawn, facts: make([]bool, keys), ended: make(map[string]int)}
	var err error
	if e.clock, err = timer.NewManualTimer(timer.WithWheelSize(4)); err != nil {
		panic(err)
	}
	workers := 0
	e.p, err = purgatory.New[int]("interleave",
		purgatory.WithTimer(e.clock),
		purgatory.WithWatcherShards(keys),
		purgatory.WithExpiryWorkers(1),
		purgatory.WithExecutor(func(f func()) error {
			workers++
			spawn(fmt.Sprint("worker", workers), f)
			return nil
		}),
		purgatory.WithPanicHandler(func(v any, stack []byte) { e.fail("panic: %v\n%s", v, stack) }))
	if err != nil {
		panic(err)
	}
	e.keys = distinctShards(e.p, keys)
	e.op = &op{e: e, keys: e.keys, want: want}
	e.other = &op{e: e, keys: e.keys[:1], want: want[:1]}
	e.another, err = purgatory.New[string]("another", purgatory.WithTimer(e.clock), purgatory.WithWatcherShards(1))
	if err != nil {
		panic(err)
	}
	return e
}

// distinctShards returns keys of different shards. The hash is seeded anew for each
// purgatory, and schedules have to repeat.
func distinctShards(p *purgatory.DelayedOperationPurgatory[int], n int) (keys []int) {
	w := (*watchers.Watchers[int])(reflect.ValueOf(p).Elem().FieldByName("watchers").UnsafePointer())
	for i := range n {
		for key := i * 1_000_000; ; key++ {
			if w.Shard(w.Hash(key)) == &w.Shards()[i] {
				keys = append(keys, key)
				break
			}
		}
	}
	return keys
}

// A verb is what one goroutine of a scenario does.
type verb struct {
	name string
	fact int // that it sets, -1: none
	do   func(*env)
}

func (e *env) register(o *op) (err error) {
	completed, err := e.p.TryCompleteElseWatch(o, timeout, o.keys...)
	o.deadline = max(o.deadline, e.clock.Now()+timeout)
	switch {
	case err == nil && o.accepted:
		e.fail("accepted twice")
	case err == nil:
		o.accepted = true
	case errors.Is(err, purgatory.ErrClosed) || errors.Is(err, purgatory.ErrUsed):
		o.refused++
	default:
		e.fail("register: %v", err)
	}
	if completed {
		e.ended["register"]++
	}
	return err
}

// resubmit registers, and what is refused by the purgatory that closes goes to another:
// which nobody checks and nobody closes.
func (e *env) resubmit() {
	if err := e.register(e.op); !errors.Is(err, purgatory.ErrClosed) {
		return
	}
	e.op.want = nil // nothing satisfies it there
	_, err := e.another.TryCompleteElseWatch(e.op, 100*timeout, "key")
	e.op.moved, e.op.triesThere = err == nil, e.op.tries
	if err != nil && !errors.Is(err, purgatory.ErrUsed) {
		e.fail("submitted again: %v", err)
	}
}

// begun reports whether the operation is held by its registration, or has been: from
// then on what is asked of it must not be lost.
func (e *env) begun() bool { return e.op.tries > 0 }

func (e *env) count(name string, n int) { e.ended[name] += n }

func check(i int) func(*env) {
	return func(e *env) {
		sched.Yield()
		e.facts[i] = true
		e.count("check", e.p.CheckAndComplete(e.keys[i]))
	}
}

func signal(i int) func(*env) {
	return func(e *env) {
		sched.Yield()
		e.facts[i] = true
		e.p.Signal(e.keys[i])
	}
}

func force(e *env) {
	sched.Yield()
	e.op.mustEnd = e.op.mustEnd || e.begun()
	if e.p.ForceComplete(e.op) {
		e.count("force", 1)
		if e.op.outcome != operation.Forced {
			e.fail("forced, the outcome is %v", e.op.outcome)
		}
	}
}

func cancel(e *env) {
	sched.Yield()
	e.op.mustEnd = e.op.mustEnd || e.begun()
	if e.p.Cancel(e.op, errCause) {
		e.count("cancel", 1)
	}
}

func cancelForKey(e *env) {
	e.count("cancel for key", e.p.CancelForKey(e.keys[len(e.keys)-1], errCause))
}

func expire(e *env) { e.p.AdvanceClock(timeout) }

func extend(e *env) {
	promised := e.clock.Now() + longer
	if e.p.Extend(e.op, longer) {
		e.op.promised = max(e.op.promised, promised)
		e.op.deadline = max(e.op.deadline, e.clock.Now()+longer)
	}
}

func closeAll(e *env) {
	if err := e.p.Close(); err != nil {
		e.fail("close: %v", err)
	}
	e.closed = true
}

func purge(e *env) { e.p.AdvanceClock(0) }

var (
	vRegister = verb{"register", -1, func(e *env) { _ = e.register(e.op) }}
	vCheck    = verb{"check", 0, check(0)}
	vSignal   = verb{"signal", 0, signal(0)}
	vForce    = verb{"force", -1, force}
	vCancel   = verb{"cancel", -1, cancel}
	vForKey   = verb{"cancelkey", -1, cancelForKey}
	vExpire   = verb{"expire", -1, expire}
	vExtend   = verb{"extend", -1, extend}
	vClose    = verb{"close", -1, closeAll}
	vPurge    = verb{"purge", -1, purge}
	vCheck2   = verb{"check2", 1, check(1)}
	vSignal2  = verb{"signal2", 1, signal(1)}
	vNudge    = verb{"nudge", -1, func(e *env) { e.p.Signal(e.keys[0]) }}
	vOther    = verb{"other", -1, func(e *env) { _ = e.register(e.other) }}
	vResubmit = verb{"resubmit", -1, (*env).resubmit}
)

// atRest is what has to hold when every goroutine has ended.
func (e *env) atRest() error {
	e.rest()
	return errors.Join(e.failures...)
}

func (e *env) rest() {
	e.p.AdvanceClock(0) // takes out what was left to the purge
	ended, did := 0, 0
	for _, n := range e.ended {
		did += n
	}
	var pending, watched int64
	for _, o := range []*op{e.op, e.other} {
		ended += o.completed
		if o.accepted && o.completed == 0 {
			pending++
			watched += int64(len(o.keys))
			o.stillPending()
		}
	}
	if did > ended {
		e.fail("ended %d, and the verbs say %v", ended, e.ended)
	}
	if s := e.p.Stats(); s.Pending != pending || s.Watched != watched {
		e.fail("%d pending, %d watched; have to be %d and %d", s.Pending, s.Watched, pending, watched)
	}
	if err := e.p.Close(); err != nil { // ends what is still pending
		e.fail("close: %v", err)
	}
	e.op.hasEnded()
	e.other.hasEnded()
	if e.op.moved {
		if e.op.completed > 0 || e.another.NumDelayed() != 1 || e.op.tries > e.op.triesThere {
			e.fail("tried or ended in another purgatory, as %v, by the one that had refused it", e.op.outcome)
		}
		_ = e.another.Close()
	}
	e.empty()
}

// stillPending says that nobody has asked for more than that.
func (o *op) stillPending() {
	e := o.e
	if o.satisfied() {
		e.fail("lost wake-up: satisfied, and still pending")
	}
	if o.mustEnd {
		e.fail("lost wish: forced or cancelled, and still pending")
	}
	if e.closed {
		e.fail("closed, and still pending")
	}
	if e.clock.Now() >= o.deadline {
		e.fail("timed out, and still pending")
	}
}

func (o *op) hasEnded() {
	e := o.e
	if !o.accepted {
		if o.completed > 0 && !o.moved {
			e.fail("not accepted, yet it has ended as %v", o.outcome)
		}
		if o.refused > 0 && !e.closed {
			e.fail("refused by an open purgatory")
		}
		return
	}
	if o.completed != 1 || o.outcome != o.Outcome() || o.outcome == operation.Pending {
		e.fail("%d OnComplete, outcome %v, later %v", o.completed, o.outcome, o.Outcome())
	}
	if (o.expired == 1) != (o.outcome == operation.Expired) || o.expired > 1 {
		e.fail("%d OnExpiration, outcome %v", o.expired, o.outcome)
	}
	if o.outcome == operation.Expired && o.completedAt < max(timeout, o.promised) {
		e.fail("expired at %v, promised %v", o.completedAt, max(timeout, o.promised))
	}
	if o.outcome == operation.Satisfied && !o.satisfied() {
		e.fail("satisfied, but it is not")
	}
}

// empty says that nothing in the purgatory refers to an operation any more.
func (e *env) empty() {
	s := e.p.Stats()
	causes := reflect.ValueOf(e.p).Elem().FieldByName("wishes").FieldByName("causes").Len()
	if s.Pending != 0 || s.Watched != 0 || s.Keys != 0 || s.Stale != 0 || e.clock.Pending() != 0 || causes != 0 {
		e.fail("left behind: %d pending, %d watched, %d keys, %d stale, %d timed, %d causes",
			s.Pending, s.Watched, s.Keys, s.Stale, e.clock.Pending(), causes)
	}
	if s.Accepted != s.Satisfied+s.Forced+s.Expired+s.Cancelled+s.Closed {
		e.fail("counters do not add up: %+v", s)
	}
}
