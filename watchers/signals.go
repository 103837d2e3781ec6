package watchers

import (
	"math/bits"
)

// signalQueue holds a shard's signalled keys, each once, in the order of their first signal. They
// are a ring: before the first is the last. A key that leaves the map leaves the queue. See
// docs/decisions.md#a-signal-is-a-mark.
type signalQueue[K comparable] struct {
	first *keyList[K]

	made int64 // calls of Signal
}

// Signal marks key as changed up to the position upTo; with inOrder, for a check in the order
// of arrival that ends at the first no, and upTo is EveryPosition. It queues the key, and calls
// [Config].Kick, so that a worker calls [Watchers.TakeSignal]: unless no operation waits for key, or
// the key was marked already. It reports whether operations wait for key.
//
// No signal is lost. TakeSignal clears the mark under the lock before the check begins,
// so a signal that arrives later queues the key again. A goroutine that is registering
// an operation and has not linked it yet tries it after linking it, so that try sees the
// change.
//
// The signals of a key make one check: up to the highest position, and in order if all of them
// ask for that. If no operation waits for a position yet, the positions do not matter: one that is
// linked later is tried by its registration.
func (s *Shard[K]) Signal(key K, hash uint64, upTo int64, inOrder bool) (awaited bool) {
	s.mu.Lock()
	defer s.unlock()
	s.mu.signals.made++
	l := s.mu.keys.find(key, hash)
	if l == nil {
		return false
	}
	s.signalLocked(l, upTo, inOrder)
	return l.Len() > 0
}

// signalLocked is Signal for a key in the map.
func (s *Shard[K]) signalLocked(l *keyList[K], upTo int64, inOrder bool) {
	q := &s.mu.signals
	if l.ordered != nil {
		l.ordered.signalled = max(l.ordered.signalled, upTo)
	}
	if l.signalled {
		l.inOrder = l.inOrder && inOrder
		return
	}
	l.signalled, l.inOrder, s.mu.kick = true, inOrder, true
	if q.first == nil {
		q.first, l.before, l.behind = l, l, l
		s.flagLocked(true)
	} else {
		l.before, l.behind = q.first.before, q.first
		l.before.behind, l.behind.before = l, l
	}
}

// unqueueLocked takes l out of the queue and clears its mark.
func (s *Shard[K]) unqueueLocked(l *keyList[K]) {
	q := &s.mu.signals
	l.before.behind, l.behind.before = l.behind, l.before
	if q.first == l {
		q.first = l.behind
	}
	if l.behind == l { // the only one
		q.first = nil
		s.flagLocked(false)
	}
	l.signalled, l.before, l.behind = false, nil, nil
	if l.ordered != nil {
		l.ordered.signalled = AnyPosition
	}
}

// flagLocked sets the bit of s in the map's bitmap of shards that have signalled keys.
func (s *Shard[K]) flagLocked(on bool) {
	word, bit := &s.all.signalled[s.index/64], uint64(1)<<(s.index%64)
	if on {
		word.Or(bit)
	} else {
		word.And(^bit)
	}
}

// Signalled reports whether any key is queued for TakeSignal.
func (w *Watchers[K]) Signalled() bool {
	for i := range w.signalled {
		if w.signalled[i].Load() != 0 {
			return true
		}
	}
	return false
}

// Signalled is a key to be checked, up to a position. InOrder asks for a check that ends at
// the first no.
type Signalled[K comparable] struct {
	Key     K
	Hash    uint64
	UpTo    int64
	InOrder bool
}

// TakeSignal clears the mark of one key and returns the key. ok is false if no key is
// queued, or if another worker has taken the last key of the shard first. Keys may be queued in other shards even if ok
// is false: see [Watchers.Signalled]. from selects the shard with which the search
// begins, so that different callers take keys of different shards.
func (w *Watchers[K]) TakeSignal(from uint) (signalled Signalled[K], ok bool) {
	for i := range w.signalled {
		at := (i + int(from/64)) % len(w.signalled)
		word := w.signalled[at].Load()
		if word == 0 {
			continue
		}
		first := int(from % 64)
		bit := (bits.TrailingZeros64(bits.RotateLeft64(word, -first)) + first) % 64
		return w.Shard(uint64(at*64 + bit)).takeSignal()
	}
	return signalled, false
}

func (s *Shard[K]) takeSignal() (signalled Signalled[K], ok bool) {
	s.mu.Lock()
	defer s.unlock()
	l := s.mu.signals.first
	if l == nil {
		return signalled, false
	}
	signalled = Signalled[K]{Key: l.key, Hash: l.hash, UpTo: AnyPosition, InOrder: l.inOrder}
	if l.inOrder {
		signalled.UpTo = EveryPosition
	} else if l.ordered != nil {
		signalled.UpTo = l.ordered.signalled
	}
	s.unqueueLocked(l)
	return signalled, true
}
