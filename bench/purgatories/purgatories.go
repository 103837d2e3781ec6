// Package purgatories puts the library and the purgatories that people write by hand behind one small face.
//
// Every peer runs the same user code, Lane's and Probe's methods, and keeps eight bytes of the user's in its operation.
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
	// Probe watches an operation that only ever expires.
	Probe(p *Probe, timeout time.Duration, keys []string)
	// Check tries everybody under the key. Where operations have goroutines of their own these may still be running
	// when it returns: see Lane.Wait.
	Check(key string)
	// Force ends an operation now and says whether this call did.
	Force(op Operation) bool
	// Pending returns how many operations wait.
	Pending() int
	Close()
}

// Operation is what a peer knows an operation by; only the peer looks into it.
type Operation any

// Lane is the state that the operations of one goroutine wait for, and their callbacks.
type Lane struct {
	ready     atomic.Bool
	completed int64        // by callbacks that run on the goroutine that checks
	parked    atomic.Int64 // of operations with goroutines of their own, those that wait
	shared    atomic.Int64 // and those that are complete
	target    atomic.Int64
	all       chan struct{} // capacity 1; sent to when parked, then shared, reaches target
	Expired   atomic.Int64
	_         [64]byte // two lanes never share a line
}

// NewLane returns a lane whose condition is not met.
func NewLane() *Lane { return &Lane{all: make(chan struct{}, 1)} }

// Expect says how many operations the next batch has, and makes the condition false.
func (l *Lane) Expect(n int) {
	l.completed = 0
	l.target.Store(int64(n))
	l.parked.Store(0)
	l.shared.Store(0)
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
	if l.parked.Add(1) == l.target.Load() {
		l.all <- struct{}{}
	}
}

// CompleteElsewhere is the callback of a peer that runs it on a goroutine of its own.
func (l *Lane) CompleteElsewhere() {
	if l.shared.Add(1) == l.target.Load() {
		l.all <- struct{}{}
	}
}

// Wait returns when the whole batch is complete. It must be.
func (l *Lane) Wait() {
	switch {
	case l.completed == l.target.Load():
	case l.completed == 0:
		<-l.all
	default:
		panic("a batch was completed in part")
	}
}

// Probe is an operation whose only interest is how late it expires.
type Probe struct {
	Late  *meter.Lateness
	Index int
}

// Expire is a probe's callback.
func (p *Probe) Expire() { p.Late.Met(p.Index) }

// Peer names a purgatory and makes a fresh one.
type Peer struct {
	Name string
	New  func() Purgatory
}

// Names of the peers.
const (
	Ours   = "ours"
	CB     = "cb"
	Chan   = "chan"
	Timers = "std-timers" // the standard library's timers, and no purgatory
)

// Peers lists the purgatories that are compared, ours first.
func Peers() []Peer {
	return []Peer{{Ours, newOurs}, {CB, newCallbacks}, {Chan, newChannels}}
}

// ByName returns one peer.
func ByName(name string) Peer {
	for _, p := range append(Peers(), Peer{Timers, newTimersOnly}) {
		if p.Name == name {
			return p
		}
	}
	panic("no purgatory named " + name)
}
