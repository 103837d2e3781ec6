package timer

// Stop makes the timer refuse further entries, cancels the pending ones and returns what they
// stand for, as [SystemTimer.Stop] does. Stopping again returns nothing.
func (t *store) Stop() (unfired []any) {
	t.making.Lock()
	t.making.stopped = true
	t.making.Unlock()
	for s := range t.made {
		s.mu.Lock()
		s.mu.stopped = true
		take := func(l *taskList) {
			for !l.empty() {
				e := l.root.Next
				s.cancelLocked(e)
				t.release(1)
				switch owner := ownerOf(e).(type) {
				case nil: // an operation's
				case *periodic:
					if owner.halt() { // otherwise Stop has prevented it
						unfired = append(unfired, &owner.Handle) // the *Handle that the caller got
					}
				default:
					unfired = append(unfired, owner)
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
