package stats

import (
	"time"

	"github.com/delayedop/purgatory/internal/machine"
)

// KeyCounts has the counts of a key since the sketch has included it.
type KeyCounts[K comparable] struct {
	Key   K
	Hash  uint64        // set by Observer.Keys
	Since time.Duration // when the sketch included the key, on the timer's clock

	Watched int64 // operations that have begun to wait for the key
	Tries   int64 // tries of operations because the key was checked
	Wasted  int64 // of Tries: those that returned false
	Ended   [machine.NumOutcomes]int64

	Weight  int64 // number of events, in which older events count for less
	Waiting int   // operations that wait for the key now; set by Observer.Keys
}

// sketch finds the keys with the most events and has memory for n keys only. It uses the
// space-saving algorithm (Metwally, Agrawal, El Abbadi 2005): a key that is not in the
// sketch takes the place of the key with the lowest weight, and inherits that weight. So
// a key with more than 1/n of all weight is certain to be in the sketch. Weights halve
// every 69 seconds, so that keys that were hot long ago leave the sketch.
//
// A sketch is not safe for concurrent use: the shard's lock guards it.
type sketch[K comparable] struct {
	hashes []uint64 // of keys; separate, so that a search touches little memory
	keys   []KeyCounts[K]
	epoch  int64 // number of half-lives up to the last decay
}

// halfLife is the binary logarithm of the half-life in nanoseconds: 2^36 ns are 68.7 s.
const halfLife = 36

func newSketch[K comparable](n int) sketch[K] {
	return sketch[K]{hashes: make([]uint64, 0, n), keys: make([]KeyCounts[K], 0, n)}
}

// find returns the counts of key, nil if key is not in the sketch.
func (t *sketch[K]) find(key K, hash uint64) *KeyCounts[K] {
	for i, h := range t.hashes {
		if h == hash && t.keys[i].Key == key {
			return &t.keys[i]
		}
	}
	return nil
}

// count adds weight to key and returns its counts.
func (t *sketch[K]) count(key K, hash uint64, weight int64, now time.Duration) *KeyCounts[K] {
	t.decay(now)
	c := t.find(key, hash)
	if c == nil {
		c = t.insert(key, hash, now)
	}
	c.Weight += weight
	return c
}

// insert gives key a place in the sketch, if necessary that of the key with the lowest
// weight, and returns its counts.
func (t *sketch[K]) insert(key K, hash uint64, now time.Duration) *KeyCounts[K] {
	i := len(t.keys)
	if i < cap(t.keys) {
		t.hashes, t.keys = t.hashes[:i+1], t.keys[:i+1]
	} else {
		i = 0
		for other := range t.keys {
			if t.keys[other].Weight < t.keys[i].Weight {
				i = other
			}
		}
	}
	t.hashes[i] = hash
	t.keys[i] = KeyCounts[K]{Key: key, Since: now, Weight: t.keys[i].Weight}
	return &t.keys[i]
}

// decay halves the weights once for each half-life since the last call.
func (t *sketch[K]) decay(now time.Duration) {
	epoch := int64(now) >> halfLife
	if epoch <= t.epoch {
		return
	}
	for i := range t.keys {
		t.keys[i].Weight >>= epoch - t.epoch
	}
	t.epoch = epoch
}
