package watchers

import (
	"math/bits"

	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/operation"
)

// signal is what a keyList knows of signals that have not been looked at.
type signal[K comparable] struct {
	upTo int64
	next *keyList[K]
}

// signalQueue holds a shard's signalled keys, each once, in the order of their
// first signal.
type signalQueue[K comparable] struct{ first, last *keyList[K] }

// Signal marks key as changed up to a position. It reports whether somebody has to
// call TakeSignal for it: not if nobody waits for key (who registers at this moment
// makes its second look after this), or if it was marked already.
//
// No signal is lost. The mark is cleared, under the lock, before the check begins:
// a signal that comes after that queues the key again.
func (s *Shard[K]) Signal(key K, hash uint64, upTo int64) (queued bool) {
	s.Checks.Signals.Add(1)
	s.mu.Lock()
	if l := s.mu.keys.find(key, hash); l != nil {
		queued = s.signalLocked(l, upTo)
	}
	s.mu.Unlock()
	return queued
}

func (s *Shard[K]) signalLocked(l *keyList[K], upTo int64) (queued bool) {
	if l.signalled {
		l.signal.upTo = max(l.signal.upTo, upTo)
		s.Checks.Coalesced.Add(1)
		return false
	}
	l.signalled, l.signal.upTo = true, upTo
	q := &s.mu.signals
	if q.first == nil {
		q.first = l
		s.flagLocked(true)
	} else {
		q.last.signal.next = l
	}
	q.last = l
	return true
}

// flagLocked says, in the map's bitmap, whether s has signalled keys.
func (s *Shard[K]) flagLocked(on bool) {
	word, bit := &s.all.signalled[s.index/64], uint64(1)<<(s.index%64)
	for {
		sched.Yield()
		old := word.Load()
		set := old &^ bit
		if on {
			set = old | bit
		}
		if word.CompareAndSwap(old, set) {
			return
		}
	}
}

// Signalled reports whether any key is marked.
func (w *Watchers[K]) Signalled() bool {
	for i := range w.signalled {
		sched.Yield()
		if w.signalled[i].Load() != 0 {
			return true
		}
	}
	return false
}

// TakeSignal clears the mark of one key and begins a walk over its waiters, as
// Begin does. It returns nil if no key is marked. turn spreads callers over the
// shards.
func (w *Watchers[K]) TakeSignal(turn uint, c *Cursor[K], out []*operation.Machine) (s *Shard[K], n int, more bool) {
	for i := range w.signalled {
		at := (i + int(turn/64)) % len(w.signalled)
		sched.Yield()
		word := w.signalled[at].Load()
		if word == 0 {
			continue
		}
		first := int(turn % 64)
		bit := (bits.TrailingZeros64(bits.RotateLeft64(word, -first)) + first) % 64
		s = &w.shards[at*64+bit]
		n, more = s.takeSignal(c, out)
		return s, n, more
	}
	return nil, 0, false
}

func (s *Shard[K]) takeSignal(c *Cursor[K], out []*operation.Machine) (n int, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := &s.mu.signals
	l := q.first
	if l == nil { // another worker was faster
		return 0, false
	}
	if q.first = l.signal.next; q.first == nil {
		q.last = nil
		s.flagLocked(false)
	}
	upTo := l.signal.upTo
	l.signalled, l.signal = false, signal[K]{}
	if l.idle() {
		s.mu.keys.recycle(l) // forgotten while it was queued
		return 0, false
	}
	return s.beginLocked(c, l, upTo, out)
}
