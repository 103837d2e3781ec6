package stats

import (
	"time"

	"github.com/delayedop/purgatory/internal/machine"
)

// keyObserver counts keys separately, in two sketches: one of the keys with the most
// operations and tries, and one of the keys with the most expiries. In a single sketch,
// busy keys would displace a quiet key whose operations all expire.
type keyObserver[K comparable] struct{ hot, expiring sketch[K] }

// unwatched counts the end of an operation that waited for key. The caller passes the
// operation's start as now, which saves a reading of the clock: weights decay a little
// later because of that.
func (k *keyObserver[K]) unwatched(key K, hash uint64, o machine.Outcome, now time.Duration) {
	hot := k.hot.find(key, hash)
	if hot != nil {
		hot.Ended[o]++
	}
	expiring := k.expiring.find(key, hash)
	if expiring != nil {
		expiring.Ended[o]++
	}
	if o != machine.Expired {
		return
	}
	counts := k.expiring.count(key, hash, 1, now)
	switch {
	case expiring != nil:
	case hot != nil: // the other sketch has counted more of the key than this first expiry
		*counts = *hot
	default:
		counts.Ended[o]++
	}
}

// Keys appends the counts of keys: to hot those of the keys with the most operations and
// tries, to expiring those of the keys with the most expiries. waiting must return how
// many operations wait for a key.
func (o *Observer[K]) Keys(hot, expiring []KeyCounts[K], waiting func(key K, hash uint64) int) (_, _ []KeyCounts[K]) {
	if o == nil || o.keys == nil {
		return hot, expiring
	}
	k := o.keys
	for i, c := range k.hot.keys {
		c.Weight, c.Waiting = k.hot.weights[i], waiting(c.Key, k.hot.hashes[i])
		hot = append(hot, c)
	}
	for i, c := range k.expiring.keys {
		hash := k.expiring.hashes[i]
		c.Weight, c.Waiting = k.expiring.weights[i], waiting(c.Key, hash)
		// Watched and tries are counted in the sketch hot only.
		c.Watched, c.Tries, c.Wasted = 0, 0, 0
		if known := k.hot.find(c.Key, hash); known != nil {
			c.Watched, c.Tries, c.Wasted = known.Watched, known.Tries, known.Wasted
		}
		expiring = append(expiring, c)
	}
	return hot, expiring
}
