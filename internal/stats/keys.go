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
	hot, expiring := k.hot.find(key, hash), k.expiring.find(key, hash)
	if o == machine.Expired {
		known := expiring != nil
		expiring = k.expiring.count(key, hash, 1, now)
		if !known && hot != nil { // the other sketch has counted the key for longer
			expiring.Since, expiring.Ended, expiring.Forgotten = hot.Since, hot.Ended, hot.Forgotten
		}
	}
	if hot != nil {
		hot.Ended[o]++
	}
	if expiring != nil {
		expiring.Ended[o]++
	}
}

// CountsKeys reports whether Tried counts anything. If not, it must not be called.
func (o *Observer[K]) CountsKeys() bool { return o != nil && o.keys != nil }

// Tried counts tries that a check of key has made, and how many of them were wasted.
func (o *Observer[K]) Tried(key K, hash uint64, tries, wasted int64) {
	counts := o.keys.hot.count(key, hash, tries, o.now())
	counts.Tries += tries
	counts.Wasted += wasted
}

// Forgotten counts an operation that was ready at its timeout, though nobody had checked key.
func (o *Observer[K]) Forgotten(key K, hash uint64) {
	if !o.CountsKeys() {
		return
	}
	o.keys.hot.count(key, hash, 1, o.now()).Forgotten++
	if c := o.keys.expiring.find(key, hash); c != nil {
		c.Forgotten++
	}
}

// Keys appends the counts of keys: to hot those of the keys with the most operations and
// tries, to expiring those of the keys with the most expiries. waiting must return how
// many operations wait for a key.
func (o *Observer[K]) Keys(hot, expiring []KeyCounts[K], waiting func(key K, hash uint64) int) (_, _ []KeyCounts[K]) {
	if !o.CountsKeys() {
		return hot, expiring
	}
	k := o.keys
	for i, c := range k.hot.keys {
		c.Waiting = waiting(c.Key, k.hot.hashes[i])
		hot = append(hot, c)
	}
	for i, c := range k.expiring.keys {
		hash := k.expiring.hashes[i]
		c.Waiting = waiting(c.Key, hash)
		// These are counted in the sketch hot only.
		if busy := k.hot.find(c.Key, hash); busy != nil {
			c.Watched, c.Tries, c.Wasted = busy.Watched, busy.Tries, busy.Wasted
		}
		expiring = append(expiring, c)
	}
	return hot, expiring
}
