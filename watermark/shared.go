package watermark

import (
	"fmt"
	"time"

	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// shared is the operation that the goroutines which wait for one position share. The first to come
// registers it. Others enter it at once, also while it is being registered. See
// docs/internals/decisions.md#a-lone-wait-of-a-watermark-stays-an-operation.
//
//  1. A goroutine enters under mu, and only if the operation does not end, or has not been asked to. So
//     it gets no error that was meant for those before it.
//  2. Only the goroutine that sets ended tells the others, by over, after it has recorded the verdict.
//  3. The last goroutine that leaves takes the operation out of waits under the same mu, and ends
//     it after that. So no goroutine is in it then. The one that registers it does not leave meanwhile.
type shared[K comparable] struct {
	operation.DelayedOperation
	w        *Watermark[K]
	position int64
	*crowd
}

// crowd is what the goroutines in a wait share beside its operation. See
// docs/internals/decisions.md#a-crowd-of-one-is-used-again.
//
// If a single goroutine is in the wait when OnComplete ends it, that one gets a token, and over is not closed. No
// other goroutine touches the crowd after that, so that the one with the token may leave it to a later wait. So may the last
// one that gives up: then there is no token. If an alarm has taken another one out, which may still listen, over is closed.
type crowd struct {
	prev, next *crowd              // in the list of all waits of the watermark; guarded by mu
	op         operation.Operation // of which it is the crowd; guarded by mu

	first, last *member       // in the order in which they came; guarded by mu
	came        time.Duration // as member.since, of the first of all; guarded by mu
	starter     member        // the first of all, unless that has a timeout: with an alarm it may stay longer than its crowd

	over    chan struct{} // is closed when the wait has ended, or gets the token, for which it has room
	verdict *error        // how it has ended, if it is not the operation's outcome that says so; constant once ended
	entered int32         // members that have not left; guarded by mu
	ended   bool          // guarded by mu
	again   bool          // the crowd may be used again; guarded by mu, constant once ended
}

var crowds sched.Pool // of *crowd

// newCrowd returns a crowd of an earlier wait, if there is one.
func newCrowd(inBubble bool) *crowd {
	if !inBubble {
		if c, ok := crowds.Get().(*crowd); ok {
			c.verdict, c.entered, c.ended, c.again = nil, 0, false, true // it is in no list, and nobody is in it
			return c
		}
	}
	return &crowd{over: make(chan struct{}, 1), again: !inBubble, starter: member{ofCrowd: true}}
}

// OnlyWakes says that the callbacks of a wait need no worker of the purgatory.
func (*shared[K]) OnlyWakes() bool { return true }

var (
	reached     error // nil, for verdict
	errPanicked = fmt.Errorf("%w: the goroutine that was about to register this wait has panicked", purgatory.ErrCancelled)
)

func (s *shared[K]) TryComplete() bool { return s.w.at.Load() >= s.position }
func (s *shared[K]) OnComplete()       { s.end(nil) }
func (s *shared[K]) OnExpiration()     {}

// enter returns the wait for position, the member as which its caller has entered it, and whether the caller has
// to start it. enter returns no wait and no error if w has come as far, even if w has been closed since the caller has
// looked.
func (w *Watermark[K]) enter(who arrival, position int64) (s *shared[K], m *member, starts bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.at.Load() >= position {
		return nil, nil, false, nil
	}
	if w.closed.Load() {
		return nil, nil, false, w.cause
	}
	if s = w.mu.first; s == nil || s.position != position {
		s = w.mu.waits[position]
	}
	if starts = s == nil || machine.Of(s).Ending(); starts {
		s = w.nextLocked(who, position, s)
	}
	if m = who.m; m == nil && starts {
		m = &s.starter
	} else if m == nil {
		m = newMember()
	}
	m.since = who.now
	s.addLocked(m)
	s.again = s.again && !who.keeps
	w.mu.waiting++
	return s, m, starts, nil
}

// nextLocked returns a new wait for position. before is the one that is there and ending, nil if there is none.
func (w *Watermark[K]) nextLocked(who arrival, position int64, before *shared[K]) *shared[K] {
	s := &shared[K]{w: w, position: position, crowd: newCrowd(who.inBubble)}
	s.came, s.op, s.prev = who.now, s, w.mu.newest
	if w.mu.newest = s.crowd; s.prev == nil {
		w.mu.oldest = s.crowd
	} else {
		s.prev.next = s.crowd
	}
	switch {
	case before == w.mu.first:
		w.mu.first = s
		return s
	case w.mu.waits == nil:
		w.mu.waits = make(map[int64]*shared[K])
	}
	w.mu.waits[position] = s
	return s
}

// start registers s, without mu. If the purgatory refuses s, start ends it and returns the error.
func (s *shared[K]) start() error {
	w := s.w
	panics := true
	defer func() {
		if panics { // the key has no hash
			s.end(&errPanicked)
		}
	}()
	_, err := w.p.TryCompleteElseWatchAt(s, purgatory.NoTimeout, purgatory.KeyPosition[K]{Key: w.key, Position: s.position})
	panics = false
	switch {
	case err != nil:
		refusal := err // a variable of its own: its address escapes
		s.end(&refusal)
		return s.err()
	case w.closed.Load():
		w.p.Cancel(s, w.cause)
	}
	return nil
}

// end ends s for its members, if it has not ended. The verdict of OnComplete is nil.
func (s *shared[K]) end(verdict *error) {
	w := s.w
	w.mu.Lock()
	if s.ended {
		w.mu.Unlock()
		return
	}
	again := s.again && s.entered <= 1 && verdict == nil
	if s.ended, s.again, s.verdict = true, again, verdict; w.at.Load() >= s.position {
		s.verdict = &reached
	}
	switch c := &w.mu.counts; {
	case s.refused():
		c.Refused++
	case s.verdict != nil || s.Outcome() == operation.Satisfied:
		c.Served += int64(s.entered)
	default:
		c.Cancelled += int64(s.entered)
	}
	w.mu.waiting -= int(s.entered)
	alone := again && s.entered == 1
	s.first, s.last = nil, nil
	s.forgetLocked()
	w.mu.Unlock()
	if alone {
		s.over <- struct{}{}
	} else if !again {
		close(s.over)
	}
}

// forgetLocked takes s, which has ended or is about to, out of the list, and lets nobody enter it any more.
func (s *shared[K]) forgetLocked() {
	if s.op == nil {
		return // the last to leave has done so
	}
	mu := &s.w.mu
	if s.prev == nil {
		mu.oldest = s.next
	} else {
		s.prev.next = s.next
	}
	if s.next == nil {
		mu.newest = s.prev
	} else {
		s.next.prev = s.prev
	}
	s.prev, s.next, s.op = nil, nil, nil
	if mu.first == s {
		mu.first = nil
	} else if mu.waits[s.position] == s {
		delete(mu.waits, s.position)
	}
}

// refused reports whether s, which has ended, was not registered.
func (s *shared[K]) refused() bool { return s.verdict != nil && *s.verdict != nil }

// err returns how s, which has ended, has ended.
func (s *shared[K]) err() error {
	if s.verdict != nil {
		return *s.verdict
	}
	err := purgatory.ErrCancelled
	switch s.Outcome() {
	case operation.Satisfied:
		return nil
	case operation.Closed:
		err = purgatory.ErrClosed
	default:
		if cause := s.Cause(); cause != nil {
			return cause
		}
	}
	return s.w.fails(s.position, err)
}
