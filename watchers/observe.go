package watchers

import (
	"time"

	"github.com/delayedop/purgatory/operation"
)

// Observe says what else than counts a map keeps of its operations.
type Observe struct {
	Times bool // start, wait and lateness of operations
	Keys  int  // how many keys to tell apart, 0: none
}

// observer is what a shard keeps when it was asked to. Guarded by the shard's lock.
// Of two fields one may be nil.
type observer[K comparable] struct {
	times *Times
	keys  *keyObserver[K]
	now   func() time.Duration
}

// keyObserver tells keys apart, in two ways: those with the most operations and
// tries, and those with the most expiries. In one sketch busy keys would push out
// the quiet one whose operations all time out.
type keyObserver[K comparable] struct {
	hot, expiring sketch[K]

	// latest is the key that began to be waited for last, and fresh how often it did
	// since then: the sketch hears of it when another one does, or before somebody
	// looks.
	latest *keyList[K]
	fresh  int64
	since  time.Duration
}

// watched counts a watch under l.
func (k *keyObserver[K]) watched(l *keyList[K], now time.Duration) {
	if l != k.latest {
		k.join()
		k.latest, k.since = l, now
	}
	k.fresh++
}

// join tells the sketch what is fresh. It comes before l can be forgotten, for its
// watches are unlinked before.
func (k *keyObserver[K]) join() {
	if l := k.latest; l != nil {
		k.hot.count(l.key, l.hash, k.fresh, k.since).Watched += k.fresh
		k.latest, k.fresh = nil, 0
	}
}

// minKeys is the least number of keys that a shard tells apart.
const minKeys = 4

func newObserver[K comparable](o Observe, shards int, now func() time.Duration) *observer[K] {
	if !o.Times && o.Keys == 0 {
		return nil
	}
	ob := &observer[K]{now: now}
	if o.Times {
		ob.times = new(Times)
	}
	if o.Keys > 0 {
		n := max((o.Keys+shards-1)/shards, minKeys)
		ob.keys = new(keyObserver[K])
		ob.keys.hot.init(n)
		ob.keys.expiring.init(n)
	}
	return ob
}

// watched counts the i-th watch of m, under l.
func (ob *observer[K]) watched(m *operation.Machine, i int, l *keyList[K]) {
	if ob.times != nil && i == 0 {
		ob.times.ages.started(m.Start())
	}
	if ob.keys != nil {
		ob.keys.watched(l, m.Start())
	}
}

// withdrawn takes back watched, for the first watch.
func (ob *observer[K]) withdrawn(m *operation.Machine) {
	if ob.times != nil {
		ob.times.ages.ended(m.Start(), m.Start(), 1)
	}
}

// passed counts the end of one that never had to wait, without a clock.
func (ob *observer[K]) passed(o operation.Outcome) {
	if ob.times != nil {
		ob.times.Waited[o].Counts[0]++
	}
}

// unlinked counts that n operations that waited under l have ended with o, and that
// it is not known yet how if o is Pending. now is about when.
func (ob *observer[K]) unlinked(l *keyList[K], o operation.Outcome, n int64, now time.Duration) {
	if ob.keys == nil {
		return
	}
	ob.keys.join()
	if o == operation.Pending {
		return
	}
	hot := ob.keys.hot.find(l.key, l.hash)
	if hot != nil {
		hot.Ended[o] += n
	}
	expiring := ob.keys.expiring.find(l.key, l.hash)
	if expiring != nil {
		expiring.Ended[o] += n
	}
	if o != operation.Expired {
		return
	}
	counts := ob.keys.expiring.count(l.key, l.hash, n, now)
	switch {
	case expiring != nil:
	case hot != nil: // its first expiry is not all that is known of it
		*counts = *hot
	default:
		counts.Ended[o] += n
	}
}

// Tried counts tries, on the key that c walks over.
func (s *Shard[K]) Tried(c *Cursor[K], run, wasted int64) {
	s.Checks.Run.Add(run)
	s.Checks.Wasted.Add(wasted)
	if s.observer == nil || s.observer.keys == nil {
		return
	}
	now := s.observer.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	counts := s.observer.keys.hot.count(c.key, c.hash, run, now)
	counts.Tries += run
	counts.Wasted += wasted
}

// Keys appends what is known of keys: those with the most operations and tries, and
// those with the most expiries.
func (s *Shard[K]) Keys(hot, expiring []KeyCounts[K]) (_, _ []KeyCounts[K]) {
	if s.observer == nil || s.observer.keys == nil {
		return hot, expiring
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := s.observer.keys
	keys.join()
	begin := len(expiring)
	hot, expiring = s.countsLocked(&keys.hot, hot), s.countsLocked(&keys.expiring, expiring)
	for i := begin; i < len(expiring); i++ {
		// The rest is counted for busy keys only.
		c := &expiring[i]
		c.Watched, c.Tries, c.Wasted = 0, 0, 0
		if known := keys.hot.find(c.Key, keys.expiring.hashes[i-begin]); known != nil {
			c.Watched, c.Tries, c.Wasted = known.Watched, known.Tries, known.Wasted
		}
	}
	return hot, expiring
}

func (s *Shard[K]) countsLocked(t *sketch[K], out []KeyCounts[K]) []KeyCounts[K] {
	for i, c := range t.keys {
		c.Weight = t.weights[i]
		if l := s.mu.keys.find(c.Key, t.hashes[i]); l != nil {
			c.Waiting = l.waiting()
		}
		out = append(out, c)
	}
	return out
}
