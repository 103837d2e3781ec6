// Sessions keeps sessions alive by their heartbeats, by the hundred thousand, and finds those that fall silent.
//
// A session is an operation that waits for its goodbye. A heartbeat moves its deadline, and costs a clock reading and an atomic
// operation; the wheel learns of it when the old deadline passes:
//
//	opened ──────► TryCompleteElseWatch(session, timeout, id)
//	heartbeat ───► Extend(session, timeout) ── true: it was in time
//	                                         └ false: too late, it was found, or is being found
//	goodbye ─────► CheckAndComplete(id) ─────► OnComplete: satisfied
//	silence ─────► its timeout passes ───────► OnComplete, OnExpiration: found
//
// This file is the one to copy. load.go has sessions speak and fall silent, and decides whether each was found once.
package main

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

type sessionID uint32

// sessions keeps sessions. It is safe for concurrent use.
type sessions struct {
	registry *purgatory.Purgatory[sessionID]
	timeout  time.Duration  // without a heartbeat
	onEnd    func(*session) // is called once for each session, and must not block
	onFound  func(*session) // follows for one that has fallen silent
}

// session is one session, and the operation that waits for its end.
type session struct {
	operation.DelayedOperation
	of    *sessions
	id    sessionID
	left  atomic.Bool // it has said goodbye
	notes             // of the load: leave it out of a copy
}

// TryComplete is the operation's: the session has said goodbye.
func (s *session) TryComplete() bool { return s.left.Load() }

// OnComplete is the operation's.
func (s *session) OnComplete() { s.of.onEnd(s) }

// OnExpiration is the operation's: the session has been silent for its timeout.
func (s *session) OnExpiration() { s.of.onFound(s) }

// String is what the debug page shows of a session.
func (s *session) String() string { return fmt.Sprintf("session %d", s.id) }

// open begins a session.
func (all *sessions) open(s *session) error {
	s.of = all
	_, err := all.registry.TryCompleteElseWatch(s, all.timeout, s.id)
	return err
}

// heartbeat gives a session another timeout, and reports whether it came in time. If not, the session is found.
func (all *sessions) heartbeat(s *session) (inTime bool) { return all.registry.Extend(s, all.timeout) }

// leave is a session's goodbye.
func (all *sessions) leave(s *session) {
	s.left.Store(true)
	all.registry.CheckAndComplete(s.id)
}
