package watchers

import (
	"time"

	"github.com/delayedop/purgatory/operation"
)

// KeyCounts is what a sketch knows of a key, since it has taken the key up.
type KeyCounts[K comparable] struct {
	Key   K
	Since time.Duration // on the timer's clock

	Watched int64 // operations that began to wait for the key
	Tries   int64 // of operations, because the key was checked
	Wasted  int64 // of Tries: said no
	Ended   [operation.Outcomes]int64

	// Set when counts are handed out.
	Weight  int64 // events, those of earlier minutes for less
	Waiting int   // now
}

// sketch finds the keys with the most events in memory for a few: the
// space-saving algorithm (Metwally, Agrawal, El Abbadi 2005). A key that is not
// among them takes the place, and the weight, of the lightest; so a key with more
// than 1/n of all events is certain to be there. Weights halve every 69 seconds:
// what was hot an hour ago is not.
//
// It is not safe for concurrent use: the shard's lock guards it.
type sketch[K comparable] struct {
	hashes  []uint64 // apart from what they stand for, so that a search touches little memory
	weights []int64
	keys    []KeyCounts[K]
	last    int   // where the last search ended: a batch is often on one key
	epoch   int64 // number of the half-life
}

const halfLife = 36 // log2 in nanoseconds: 68.7 s

func (t *sketch[K]) init(n int) {
	t.hashes = make([]uint64, 0, n)
	t.weights = make([]int64, 0, n)
	t.keys = make([]KeyCounts[K], 0, n)
}

// find returns key's counts, nil if it is not there.
func (t *sketch[K]) find(key K, hash uint64) *KeyCounts[K] {
	if i := t.search(key, hash); i >= 0 {
		return &t.keys[i]
	}
	return nil
}

func (t *sketch[K]) search(key K, hash uint64) int {
	if i := t.last; i < len(t.hashes) && t.hashes[i] == hash && t.keys[i].Key == key {
		return i
	}
	for i, h := range t.hashes {
		if h == hash && t.keys[i].Key == key {
			t.last = i
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
		i = t.takeUp(key, hash, now)
	}
	t.weights[i] += weight
	return &t.keys[i]
}

func (t *sketch[K]) takeUp(key K, hash uint64, now time.Duration) int {
	counts := KeyCounts[K]{Key: key, Since: now}
	if n := len(t.hashes); n < cap(t.hashes) {
		t.hashes = append(t.hashes, hash)
		t.weights = append(t.weights, 0)
		t.keys = append(t.keys, counts)
		t.last = n
		return n
	}
	lightest := 0
	for i, w := range t.weights {
		if w < t.weights[lightest] {
			lightest = i
		}
	}
	t.hashes[lightest], t.keys[lightest], t.last = hash, counts, lightest
	return lightest
}

func (t *sketch[K]) decay(now time.Duration) {
	epoch := int64(now) >> halfLife
	if epoch <= t.epoch {
		return
	}
	by := min(epoch-t.epoch, 62)
	for i := range t.weights {
		t.weights[i] >>= by
	}
	t.epoch = epoch
}
