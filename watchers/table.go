package watchers

import (
	"unsafe"

	"github.com/delayedop/purgatory/internal/machine"
)

// keyList is a key and the operations that wait for it. What is written when an operation is linked fills one cache
// line.
type keyList[K comparable] struct {
	machine.List // in order of position, see lastUpTo; the first field, see listOf
	shard        *shard[K]

	hash    uint64
	key     K
	chain   *keyList[K] // next in the table's bucket, or in its free list
	ordered *ordered    // nil until an operation waits for a position

	asked   asked  // what is to be tried, and is not covered by the walk that is under way
	number  uint32 // of the walks that have begun, also for earlier keys
	before  uint32 // the number of those for earlier keys
	walking bool   // a walk tries operations
	queued  bool   // the key is in the queue: a worker will begin a walk

	ahead, behind *keyList[K] // in the queue
}

// asked is what checks and signals have asked for.
type asked struct {
	upTo int64
	any  bool // otherwise nothing
}

func (a *asked) add(upTo int64) {
	if a.any {
		upTo = max(upTo, a.upTo)
	}
	*a = asked{upTo, true}
}

// listOf returns the list that w is in, nil if none. The conversion is safe: such a list is the first field of a
// keyList.
func listOf[K comparable](w *machine.Watch) *keyList[K] {
	return (*keyList[K])(unsafe.Pointer(w.List))
}

// table is a hash table with chaining: see docs/internals/decisions.md#a-hash-table-of-our-own.
type table[K comparable] struct {
	free    *keyList[K]
	nfree   int32
	len     int32
	buckets []*keyList[K]
}

const (
	minBuckets = 8
	maxFree    = 64 // largest number of keyLists that are kept for later keys
)

// bucket uses the upper half of the hash: the lower bits have chosen the shard.
func (t *table[K]) bucket(hash uint64) **keyList[K] {
	return &t.buckets[(hash>>32)&uint64(len(t.buckets)-1)]
}

func (t *table[K]) find(key K, hash uint64) *keyList[K] {
	for l := *t.bucket(hash); l != nil; l = l.chain {
		if l.hash == hash && l.key == key {
			return l
		}
	}
	return nil
}

func (t *table[K]) add(s *shard[K], key K, hash uint64) *keyList[K] {
	if n := len(t.buckets); int(t.len) == n {
		t.resize(2 * n)
	}
	l := t.free
	if l != nil {
		t.free, l.chain = l.chain, nil
		t.nfree--
	} else {
		l = &keyList[K]{shard: s}
		l.Init(s.all.config.End)
	}
	l.key, l.hash, l.before = key, hash, l.number
	b := t.bucket(hash)
	l.chain, *b = *b, l
	t.len++
	return l
}

func (t *table[K]) remove(l *keyList[K]) {
	for b := t.bucket(l.hash); ; b = &(*b).chain {
		if *b == l {
			*b = l.chain
			break
		}
	}
	t.len--
	l.chain = nil
	l.key = *new(K)
	if t.nfree < maxFree {
		l.chain, t.free = t.free, l
		t.nfree++
	}
	if n := len(t.buckets); n > minBuckets && int(t.len) < n/8 {
		t.resize(n / 2)
	}
}

func (t *table[K]) resize(n int) {
	old := t.buckets
	t.buckets = make([]*keyList[K], n)
	for _, l := range old {
		for l != nil {
			next := l.chain
			b := t.bucket(l.hash)
			l.chain, *b = *b, l
			l = next
		}
	}
}
