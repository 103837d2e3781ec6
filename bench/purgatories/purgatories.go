// Package purgatories puts the library and the purgatories that people write by hand behind one small face.
//
// Every peer runs the same user code, Lane's methods, and keeps eight bytes of the user's in its operation.
package purgatories

import (
	"sync/atomic"
	"time"

	"github.com/delayedop/purgatory/bench/meter"
)

// Purgatory is one running peer. Its methods are safe for concurrent use.
type Purgatory interface {
	// Submit tries an operation of the lane and watches it under the keys.
	Submit(l *Lane, timeout time.Duration, keys []string) Operation
	// Settle returns when every operation that the lane expects waits: at once, where Submit itself sees to it.
	Settle(l *Lane)
	// Check tries everybody under the key. Where operations have goroutines of their own these may still be running
	// when it returns: see Lane.Wait.
	Check(key string)
	// Force ends an operation now and says whether this call did.
	Force(op Operation) bool
	// Pending returns how many operations wait.
	Pending() int
	// Close ends the peer's goroutines. Nothing is pending.
	Close()
}

// Ordered is what a peer has that knows positions.
type Ordered interface {
	SubmitAt(l *Lane, timeout time.Duration, key string, position int64)
	CheckUpTo(key string, position int64)
}

// Operation is what a peer knows an operation by; only the peer looks into it.
type Operation any

// Lane is what operations wait for, and their callbacks. The operations of one goroutine share a lane; one whose lateness
// is recorded has its own.
type Lane struct {
	ready     atomic.Bool
	completed int64  // by callbacks that run on the goroutine that checks
	batch     *batch // nil in a probe
	late      *meter.Lateness
	index     int // in late
}

// batch counts the operations of a lane that other goroutines end.
type batch struct {
	parked  atomic.Int64 // of operations with goroutines of their own, those that wait
	shared  atomic.Int64 // and those that are complete
	target  atomic.Int64
	all     chan struct{} // capacity 1; sent to when parked, then shared, reaches target
	expired atomic.Int64
}

// NewLane returns a lane whose condition is not met.
func NewLane() *Lane {
	l := new(struct {
		Lane
		batch
		_ [64]byte // two lanes never share a line
	})
	l.all = make(chan struct{}, 1)
	l.Lane.batch = &l.batch
	return &l.Lane
}

// Probes returns lanes whose conditions are never met, one for each deadline of a record.
func Probes(late *meter.Lateness, n int) []Lane {
	probes := make([]Lane, n)
	for i := range probes {
		probes[i].late, probes[i].index = late, i
	}
	return probes
}

// Expect says how many operations the next batch has, and makes the condition false.
func (l *Lane) Expect(n int) {
	l.completed = 0
	l.batch.target.Store(int64(n))
	l.batch.parked.Store(0)
	l.batch.shared.Store(0)
	l.ready.Store(false)
}

// Ready is the condition.
func (l *Lane) Ready() bool { return l.ready.Load() }

// Arrive makes the condition true.
func (l *Lane) Arrive() { l.ready.Store(true) }

// Complete is the callback of a peer that runs it on the goroutine that checks.
func (l *Lane) Complete() { l.completed++ }

// Park notes that an operation's goroutine is about to wait.
func (l *Lane) Park() {
	if l.batch != nil {
		l.batch.count(&l.batch.parked)
	}
}

// CompleteElsewhere is the callback of a peer that runs it on a goroutine of its own.
func (l *Lane) CompleteElsewhere() { l.batch.count(&l.batch.shared) }

func (b *batch) count(n *atomic.Int64) {
	if n.Add(1) == b.target.Load() {
		b.all <- struct{}{}
	}
}

// Expire is the callback of an operation that has timed out.
func (l *Lane) Expire() {
	if l.late != nil {
		l.late.Met(l.index)
	} else {
		l.batch.expired.Add(1)
	}
}

// Wait returns when the whole batch is complete. It must be.
func (l *Lane) Wait() {
	switch {
	case l.completed == l.batch.target.Load():
	case l.completed == 0:
		<-l.batch.all
	default:
		panic("a batch was completed in part")
	}
}

// Names of the peers.
const (
	Ours   = "ours"
	CB     = "cb"
	Chan   = "chan"
	Timers = "std-timers" // the standard library's timers, and no purgatory
)

var peers = map[string]func() Purgatory{
	Ours:   func() Purgatory { return NewOurs() },
	CB:     func() Purgatory { return newCallbacks() },
	Chan:   newChannels,
	Timers: func() Purgatory { return new(timersOnly) },
}

// New starts the peer of that name.
func New(name string) Purgatory { return peers[name]() }
