package watchers

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

// Take takes the first key out of the queue, and begins a walk, unless a check has begun one meanwhile: then v is nil.
// found is false if the queue was empty.
func (w *Watchers[K]) Take() (v *Visit[K], found bool) {
	for l := w.head(); l != nil && !found; l = w.head() {
		l.shard.lock()
		if found = l.queued; found { // else another goroutine was faster
			v = l.beginLocked()
		}
		l.shard.mu.Unlock()
	}
	return v, found
}
