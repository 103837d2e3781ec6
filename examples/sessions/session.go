package main

import (
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

type sessionID uint32

type registry = purgatory.DelayedOperationPurgatory[sessionID]

// session is one session, and the operation that waits for its end. Its times are since the start of the run.
type session struct {
	operation.DelayedOperation
	run *observed
	id  sessionID

	left  atomic.Bool  // it has said goodbye
	ends  atomic.Int32 // calls of OnComplete
	finds atomic.Int32 // calls of OnExpiration
	found atomic.Int64 // when OnExpiration was called first, nanoseconds

	// These are the beater's until the run is over.
	lastWords time.Duration // it does not speak after that; talkative: it does so until the end
	spoke     time.Duration // just before its last heartbeat that was in time: it must not be found until spoke + timeout
	wrongly   bool          // a heartbeat was refused that was in time
	refused   bool          // a heartbeat was refused: it has been found, or is being found
}

const talkative = time.Duration(math.MaxInt64)

// TryComplete is the operation's: the session has said goodbye.
func (s *session) TryComplete() bool { return s.left.Load() }

// OnComplete is the operation's.
func (s *session) OnComplete() { s.ends.Add(1) }

// OnExpiration is the operation's: the session has been silent for its timeout.
func (s *session) OnExpiration() {
	if s.finds.Add(1) == 1 {
		s.found.Store(int64(s.run.now()))
		s.run.found.Add(1)
		if s.silent() {
			s.run.silentFound.Add(1)
		}
	}
}

// String is what the debug page shows of a session.
func (s *session) String() string { return fmt.Sprintf("session %d", s.id) }

func (s *session) silent() bool { return s.lastWords != talkative }

// deadline is before which the session must not be found.
func (s *session) deadline(timeout time.Duration) time.Duration { return s.spoke + timeout }

// foundAt is when it was found, if it was.
func (s *session) foundAt() time.Duration { return time.Duration(s.found.Load()) }

// open begins the session.
func (s *session) open(p *registry, timeout time.Duration) error {
	s.spoke = s.run.now()
	_, err := p.TryCompleteElseWatch(s, timeout, s.id)
	return err
}

// beat is a heartbeat, sent after the time before. It reports whether it was in time.
func (s *session) beat(p *registry, timeout, before time.Duration) bool {
	if p.Extend(s, timeout) {
		s.spoke = before
		return true
	}
	// The promise was made for spoke + timeout at least. If that is still to come, it was broken.
	s.refused = true
	s.wrongly = s.wrongly || s.run.now() < s.deadline(timeout)
	return false
}

// leave is the session's goodbye.
func (s *session) leave(p *registry) {
	s.left.Store(true)
	p.CheckAndComplete(s.id)
}

// observed is what all sessions of a run have in common: its clock, and its counters. It is safe for concurrent use.
type observed struct {
	start       time.Time
	heartbeats  atomic.Int64
	found       atomic.Int64
	silentFound atomic.Int64
}

func (o *observed) now() time.Duration { return time.Since(o.start) }
