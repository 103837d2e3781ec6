package watchers

import "github.com/delayedop/purgatory/internal/machine"

// Signal asks for tries up to a position, and queues the key for a worker, unless a walk is under way. It
// reports whether operations wait for key. No signal is lost: see [Walk]. The shard is Used.
func (w *Watchers[K]) Signal(key K, hash uint64, upTo int64) (awaited bool) {
	s := w.used(hash)
	s.lock()
	s.mu.signals++
	l := s.mu.keys.find(key, hash)
	if l != nil {
		if l.asked.add(upTo); !l.walking {
			s.queueLocked(l)
		}
	}
	s.mu.Unlock()
	return l != nil
}

func (s *shard[K]) queueLocked(l *keyList[K]) {
	if l.queued {
		return
	}
	q := &s.all.queue
	q.Lock()
	if l.queued = true; q.first == nil {
		q.first, l.ahead, l.behind = l, l, l
	} else {
		l.ahead, l.behind = q.first.ahead, q.first
		l.ahead.behind, l.behind.ahead = l, l
	}
	q.Unlock()
	s.all.config.Kick()
}

func (s *shard[K]) unqueueLocked(l *keyList[K]) {
	q := &s.all.queue
	q.Lock()
	l.ahead.behind, l.behind.ahead = l.behind, l.ahead
	if q.first == l {
		q.first = l.behind
	}
	if l.behind == l { // the only one
		q.first = nil
	}
	l.queued, l.ahead, l.behind = false, nil, nil
	q.Unlock()
}

// head returns the first key of the queue, nil if there is none.
func (w *Watchers[K]) head() *keyList[K] {
	w.queue.Lock()
	defer w.queue.Unlock()
	return w.queue.first
}

// Signalled reports whether any key is queued.
func (w *Watchers[K]) Signalled() bool { return w.head() != nil }

// BeginSignalled takes the first key out of the queue, and begins a walk. ok is false if the queue was empty,
// or another worker was faster.
func (w *Watchers[K]) BeginSignalled(walk *Walk[K], out []*machine.Machine) (n int, ok bool) {
	l := w.head()
	if l == nil {
		return 0, false
	}
	s := l.shard
	s.lock()
	defer s.mu.Unlock()
	if !l.queued {
		return 0, false
	}
	s.unqueueLocked(l)
	if l.asked.any && !l.walking { // else a check has begun meanwhile
		n = walk.beginLocked(l, out)
	}
	return n, true
}
