package queue

import "time"

// Stats is a picture of a queue. Units are counted as they come and go: Put + Back = Handed + Items + what Close has
// returned, in the arithmetic of int64, which wraps around. Requests are counted when they end: Served, Expired, Left and Refused.
type Stats struct {
	Put, Back, Handed int64 // units: put, put back, handed over
	PutRefused        int64 // units, with ErrFull
	Served            int64 // requests that have got what they asked for
	Expired           int64 // requests that ended with ErrExpired or ErrStale
	Left              int64 // requests that their context, Stop, Close or Shutdown has ended while they waited
	Refused           int64 // requests that ended with ErrFull, or with ErrClosed since the timer has stopped

	Waiting int           // requests
	Items   int           // units that are kept
	Oldest  time.Duration // how long the one who has waited longest has waited
	Tenants map[string]Tenant
}

// Tenant is a tenant that waits, or whose items are kept.
type Tenant struct {
	Waiting int           // requests; one that waits for several kinds counts for each
	Items   int           // that are kept, unless they are only counted or were put back
	Oldest  time.Duration // how long the request that has waited longest has waited
}

// Stats returns a picture of the queue, in O(kinds + tenants). It does not block.
func (q *Queue[T]) Stats() Stats {
	now := q.timer.Now()
	q.mu.Lock()
	defer q.unlock()
	s := q.mu.counts
	s.Handed = s.Put + s.Back - int64(q.mu.kept) - q.mu.returned
	s.Waiting, s.Items, s.Tenants = q.mu.waiting, q.mu.kept, make(map[string]Tenant)
	for _, k := range q.mu.kinds {
		for _, f := range k.line.heap {
			if f.n > 0 {
				t := s.Tenants[f.tenant]
				t.Waiting += f.n
				t.Oldest = max(t.Oldest, now-time.Duration(f.first(false, 0).arrival))
				s.Tenants[f.tenant] = t
				s.Oldest = max(s.Oldest, t.Oldest)
			}
		}
		for _, f := range k.items.heap {
			if f.n > 0 && f != &k.items.front {
				t := s.Tenants[f.tenant]
				t.Items += f.n
				s.Tenants[f.tenant] = t
			}
		}
	}
	return s
}
