package watchers

import "github.com/delayedop/purgatory/internal/machine"

// Begin is Lock and [Locked.Begin].
func (s *Shard[K]) Begin(c *Cursor[K], key K, hash uint64, upTo int64, out []*machine.Machine) (n int, more bool) {
	if l, ok := s.Lock(key, hash); ok {
		return l.Begin(c, upTo, out)
	}
	return 0, false
}

// BeginTurn is Lock and [Locked.BeginTurn].
func (s *Shard[K]) BeginTurn(c *Cursor[K], key K, hash uint64, out []*machine.Machine) (n int, more, ok bool) {
	if l, ok := s.Lock(key, hash); ok {
		return l.BeginTurn(c, out)
	}
	return 0, false, false
}

// Awaited reports whether operations wait for key.
func (s *Shard[K]) Awaited(key K, hash uint64) bool { return s.Waiting(key, hash) > 0 }

// Quiet reports whether every operation that was accepted is answered.
func (w *Watchers[K]) Quiet() bool { return w.Unanswered() == 0 }
