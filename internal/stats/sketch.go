package stats

import (
	"time"

	"github.com/delayedop/purgatory/internal/machine"
)

// KeyCounts has the counts of a key since the sketch has included it.
type KeyCounts[K comparable] struct {
	Key   K
	Since time.Duration // when the sketch included the key, on the timer's clock

	Watched int64 // operations that have begun to wait for the key
	Tries   int64 // tries of operations because the key was checked
	Wasted  int64 // of Tries: those that returned false
	Ended   [machine.NumOutcomes]int64

	Forgotten int64 // operations that were ready at their timeout, though nobody had checked the key

	// Observer.Keys sets these.
	Weight  int64 // number of events, in which older events count for less
	Waiting int   // operations that wait for the key now
}

// sketch finds the keys with the most events and has memory for n keys only. It uses the
// space-saving algorithm (Metwally, Agrawal, El Abbadi 2005): a key that is not in the
// sketch takes the place of the key with the lowest weight, and inherits that weight. So
// a key with more than 1/n of all weight is certain to be in the sketch. Weights halve
// every 69 seconds, so that keys that were hot long ago leave the sketch.
//
// A sketch is not safe for concurrent use: the shard's lock guards it.
type sketch[K comparable] struct {
	hashes  []uint64 // separate from keys, so that a search touches little memory
	weights []int64
	keys    []KeyCounts[K]
	epoch   int64 // number of half-lives up to the last decay
}

// halfLife is the binary logarithm of the half-life in nanoseconds: 2^36 ns are 68.7 s.
const halfLife = 36

func (t *sketch[K]) init(n int) {
	t.hashes = make([]uint64, 0, n)
	t.weights = make([]int64, 0, n)
	t.keys = make([]KeyCounts[K], 0, n)
}

// find returns the counts of key, nil if key is not in the sketch.
func (t *sketch[K]) find(key K, hash uint64) *KeyCounts[K] {
	if i := t.search(key, hash); i >= 0 {
		return &t.keys[i]
	}
	return nil
}

func (t *sketch[K]) search(key K, hash uint64) int {
	for i, h := range t.hashes {
		if h == hash && t.keys[i].Key == key {
			return i
		}
	}
	return -1
}

// count adds weight to key and returns its counts.
func (t *sketch[K]) count(key K, hash uint64, weight int64, now time.Duration) *KeyCounts[K] {
	t.decay(now)
	i := t.search(key, hash)
	if i < 0 {
		i = t.insert(key, hash, now)
	}
	t.weights[i] += weight
	return &t.keys[i]
}

// insert gives key a place in the sketch, if necessary that of the key with the lowest
// weight, and returns the place.
func (t *sketch[K]) insert(key K, hash uint64, now time.Duration) int {
	counts := KeyCounts[K]{Key: key, Since: now}
	if n := len(t.hashes); n < cap(t.hashes) {
		t.hashes = append(t.hashes, hash)
		t.weights = append(t.weights, 0)
		t.keys = append(t.keys, counts)
		return n
	}
	lightest := 0
	for i, w := range t.weights {
		if w < t.weights[lightest] {
			lightest = i
		}
	}
	t.hashes[lightest], t.keys[lightest] = hash, counts
	return lightest
}

// decay halves the weights once for each half-life since the last call.
func (t *sketch[K]) decay(now time.Duration) {
	epoch := int64(now) >> halfLife
	if epoch <= t.epoch {
		return
	}
	by := epoch - t.epoch
	for i := range t.weights {
		t.weights[i] >>= by
	}
	t.epoch = epoch
}
