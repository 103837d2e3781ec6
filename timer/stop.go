package timer

// stop makes the timer refuse new entries, cancels all pending ones and returns their tasks
// and handles. It cancels entries of operations too, but does not return the operations.
func (t *store) stop() (unfired []any) {
	for _, s := range t.shards {
		s.mu.Lock()
		s.mu.stopped = true
		take := func(l *taskList) {
			for !l.empty() {
				e := l.root.Next
				s.cancelLocked(e)
				t.release(1)
				if p, ok := e.Owner.(*periodic); ok {
					if p.halt() { // otherwise Stop has prevented it
						unfired = append(unfired, &p.Handle) // the *Handle that the caller got
					}
				} else if !e.OfOperation() {
					unfired = append(unfired, e.Owner)
				}
			}
		}
		take(&s.mu.due)
		take(&s.mu.young)
		for _, bucket := s.mu.wheel.next(); bucket != nil; _, bucket = s.mu.wheel.next() {
			take(bucket)
		}
		t.readyLocked(s)
		s.mu.Unlock()
	}
	return unfired
}
