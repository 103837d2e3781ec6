package watchers

import "github.com/delayedop/purgatory/internal/machine"

// Seal makes the shard accept no further operation: [Shard.Pass], and [Shard.Watch] for the
// first key of an operation, fail from now on.
func (s *Shard[K]) Seal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.sealed = true
}

// Close makes every later [Shard.Watch] and [Shard.Pass] fail. It returns the operations
// that are watched now, in no particular order, including those that are still being
// registered. An operation with several keys may be returned more than once.
func (s *Shard[K]) Close() (waiting []*machine.Machine) {
	s.mu.Lock()
	s.mu.closed = true
	waiting = make([]*machine.Machine, 0, s.mu.watched)
	s.mu.Unlock()
	s.someLists(0, func(l *keyList[K]) bool {
		waiting = l.appendUpTo(waiting, EveryPosition)
		return true
	})
	return waiting
}
