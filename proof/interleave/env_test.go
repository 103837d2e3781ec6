//go:build interleave

package interleave

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"reflect"
	"time"

	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/internal/workers"
	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/timer"
	"github.com/delayedop/purgatory/watchers"
)

// timeout is the operation's timeout, and longer the one that extend sets.
const (
	timeout = 10 * time.Millisecond
	longer  = 20 * time.Millisecond
)

// env is one run of a scenario: a purgatory on a manual clock, an operation that waits for one
// or two keys, and what the run has observed. One goroutine runs at a time, so its fields need
// no lock.
type env struct {
	p     *purgatory.DelayedOperationPurgatory[int]
	clock *timer.ManualTimer
	keys  []int
	op    *op
	other *op // in some scenarios: a second operation, which waits for the first key only

	// another is a second purgatory, on its own clock, whose verbs must do nothing to what p has accepted.
	another *purgatory.DelayedOperationPurgatory[string]

	full []*timer.TaskEntry // in some scenarios: the entry that fills p's timer

	facts    []bool         // one per key: what the conditions depend on
	ended    map[string]int // by verb: how many operations it reports to have ended
	closed   bool
	over     bool // a Shutdown has returned, and nothing was left unanswered
	calls    int  // registrations that have begun
	underWay int  // registrations that have not returned
	failures []error
}

func (e *env) fail(format string, args ...any) {
	e.failures = append(e.failures, fmt.Errorf(format, args...))
}

// op is satisfied when all facts are set that verbs of the scenario set. If no verb sets a
// fact, it is never satisfied.
type op struct {
	operation.DelayedOperation
	e    *env
	keys []int
	want []bool // by key

	accepted bool
	refused  int           // refusals with ErrClosed or ErrUsed
	mustEnd  bool          // it was forced or cancelled after its registration had begun
	promised time.Duration // Extend promised that it does not expire before
	deadline time.Duration // it must have expired by then; an upper bound, for the clock may move meanwhile

	tries           int
	nests           int // how many further tries check the first key
	marks           int // how many further tries find a mark, as a check on another goroutine leaves it
	trying, calling bool
	completed       int
	expired         int
	outcome         operation.Outcome
	completedAt     time.Duration
}

// maxTries is more tries than the verbs of any scenario can cause.
const maxTries = 30

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
	if o.e.over && o.accepted {
		o.e.fail("TryComplete after Shutdown has returned")
	}
	if o.trying || o.calling || o.completed > 0 {
		o.e.fail("TryComplete overlaps itself or a callback, or follows OnComplete")
	}
	if o.tries > maxTries {
		o.e.fail("tried %d times", o.tries)
	}
	o.trying = true
	yes := o.satisfied()
	sched.Yield()
	if !yes && o.nests > 0 {
		o.nests--
		o.e.count("nested check", o.e.p.CheckAndComplete(o.e.keys[0]))
		yes = o.satisfied()
	}
	if !yes && o.marks > 0 {
		o.marks--
		machine.Of(o).Acquire()
	}
	o.trying = false
	return yes
}

func (o *op) OnComplete() {
	if o.trying || o.calling {
		o.e.fail("OnComplete overlaps TryComplete or a callback")
	}
	if o.e.over {
		o.e.fail("OnComplete after Shutdown has returned")
	}
	o.calling = true
	o.completed++
	o.outcome = o.Outcome()
	o.completedAt = o.e.clock.Now()
	if o.outcome == operation.Pending {
		o.e.fail("OnComplete of an operation without an outcome")
	}
	if o.outcome == operation.Cancelled && !errors.Is(o.Cause(), errCause) && !errors.Is(o.Cause(), context.Canceled) {
		o.e.fail("cancelled with cause %v", o.Cause())
	}
	o.calling = false
}

func (o *op) OnExpiration() {
	if o.e.over {
		o.e.fail("OnExpiration after Shutdown has returned")
	}
	if o.trying || o.calling || o.completed != 1 || o.outcome != operation.Expired {
		o.e.fail("OnExpiration overlaps, comes before OnComplete, or the outcome is %v", o.outcome)
	}
	o.expired++
}

var errCause = errors.New("cause")

// newEnv creates the objects of a run. Each key is on its own shard. If full is true, an entry
// fills the timer, so that it refuses operations. maxPending is the limit of the purgatory, 0 for none.
func newEnv(keys int, want []bool, full bool, maxPending int) *env {
	e := &env{facts: make([]bool, keys), ended: make(map[string]int)}
	e.clock = newClock(0)
	if full {
		e.clock = newClock(1)
		e.fill()
	}
	options := []purgatory.Option{
		purgatory.WithTimer(e.clock),
		purgatory.WithWorkers(1),
		purgatory.WithPanicHandler(func(v any, stack []byte) { e.fail("panic: %v\n%s", v, stack) }),
	}
	if maxPending > 0 {
		options = append(options, purgatory.WithMaxPending(maxPending))
	}
	var err error
	e.p, err = purgatory.New[int]("interleave", options...)
	if err != nil {
		panic(err)
	}
	e.keys = distinctShards(e.p, keys)
	e.op = &op{e: e, keys: e.keys, want: want}
	e.other = &op{e: e, keys: e.keys[:1], want: want[:1]}
	e.another, err = purgatory.New[string]("another", purgatory.WithTimer(newClock(0)))
	if err != nil {
		panic(err)
	}
	return e
}

// newClock returns a manual clock; maxPending is its limit, 0 for none.
func newClock(maxPending int) *timer.ManualTimer {
	clock, err := timer.NewManualTimer(timer.WithWheelSize(4), timer.WithMaxPending(maxPending))
	if err != nil {
		panic(err)
	}
	return clock
}

// filler is the task of the entry that fills a timer.
type filler struct{}

func (filler) RunTask(*timer.TaskEntry) {}

// fill adds an entry to p's timer, whose limit is 1.
func (e *env) fill() {
	entry := new(timer.TaskEntry)
	entry.Bind(filler{})
	if err := e.clock.AddAt(entry, 0, 1000*timeout); err != nil {
		panic(err)
	}
	e.full = append(e.full, entry)
}

// room removes the entry that fills p's timer.
func (e *env) room() {
	for _, entry := range e.full {
		e.clock.Cancel(entry)
	}
}

// distinctShards returns n keys: the i-th key is on the i-th shard. Each purgatory has another
// hash seed, so the keys differ from run to run, but their shards do not, and schedules can be
// repeated.
func distinctShards(p *purgatory.DelayedOperationPurgatory[int], n int) (keys []int) {
	// The field has this very type, so the conversion of the pointer is safe.
	seed := *(*maphash.Seed)(reflect.ValueOf(p).Elem().FieldByName("seed").Addr().UnsafePointer())
	shards := reflect.ValueOf(p).Elem().FieldByName("watchers").Elem().FieldByName("slots").Len()
	for key := 0; len(keys) < n; key++ {
		if maphash.Comparable(seed, key)%uint64(shards) == uint64(len(keys)) {
			keys = append(keys, key)
		}
	}
	return keys
}

// watchersOf returns p's watchers. The conversion of the pointer is safe, because the field has
// this very type.
func watchersOf(p *purgatory.DelayedOperationPurgatory[int]) *watchers.Watchers[int] {
	return (*watchers.Watchers[int])(reflect.ValueOf(p).Elem().FieldByName("watchers").UnsafePointer())
}

// queuedIn returns how many callbacks wait for a worker of p, and whether no worker runs.
func queuedIn(p *purgatory.DelayedOperationPurgatory[int]) (handed int, idle bool) {
	crew := reflect.ValueOf(p).Elem().FieldByName("crew")
	pool := (*workers.Pool)(crew.FieldByName("pool").Addr().UnsafePointer()) // the field has this very type
	return crew.FieldByName("handed").FieldByName("ops").Len(), pool.Idle()
}
