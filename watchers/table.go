package watchers

import "github.com/delayedop/purgatory/operation"

// keyList is a key and those who wait for it.
//
// What is written whenever an operation comes or goes is a cache line, and what is only
// read then is the next: who registers and who ends an operation are mostly on different
// processors, and each line that they write has to move from one to the other.
type keyList[K comparable] struct {
	unordered operation.List // in the order in which they came
	shard     *Shard[K]

	hash    uint64
	key     K
	chain   *keyList[K]  // next in the table's bucket, or in its free list
	ordered *orderedList // in order of position; nil until somebody waits for one

	readers   int32 // cursors that stand in it: it must not be forgotten
	signalled bool  // it is in the shard's queue of signals
	signal    signal[K]
}

// orderedList is those who wait for a position on a key.
type orderedList struct {
	operation.List
	index positionIndex
}

// waiting returns how many operations wait for the key.
func (l *keyList[K]) waiting() int {
	n := l.unordered.Len()
	if l.ordered != nil {
		n += l.ordered.Len()
	}
	return n
}

// idle reports whether nothing stands in l, no cursor either. It mostly sees that in the
// first cache line.
func (l *keyList[K]) idle() bool { return l.unordered.Len() == 0 && l.waiting() == 0 && l.readers == 0 }

// lists returns the lists of l, in the order in which their operations are tried.
func (l *keyList[K]) lists() []*operation.List {
	if l.ordered == nil {
		return []*operation.List{&l.unordered}
	}
	return []*operation.List{&l.unordered, &l.ordered.List}
}

// End is operation.Home's.
func (l *keyList[K]) End(m *operation.Machine, o operation.Outcome, cause *error) {
	l.shard.all.end(l.shard, m, o, cause)
}

// table is a hash table with chaining. It is not safe for concurrent use. Against
// Go's map it hashes a key once for shard and table together, finds an entry to
// remove without its key (so that a NaN is no trouble), and recycles its entries,
// so that keys that come and go allocate nothing.
type table[K comparable] struct {
	buckets []*keyList[K] // a power of two, or none
	len     int32
	nfree   int32
	free    *keyList[K]
}

const (
	minBuckets = 8
	maxFree    = 64 // empty lists kept for the next key
)

// bucket uses the upper half of the hash: the lower bits chose the shard.
func (t *table[K]) bucket(hash uint64) **keyList[K] {
	return &t.buckets[(hash>>32)&uint64(len(t.buckets)-1)]
}

func (t *table[K]) find(key K, hash uint64) *keyList[K] {
	if len(t.buckets) == 0 {
		return nil
	}
	for l := *t.bucket(hash); l != nil; l = l.chain {
		if l.hash == hash && l.key == key {
			return l
		}
	}
	return nil
}

func (t *table[K]) findOrAdd(s *Shard[K], key K, hash uint64) *keyList[K] {
	if l := t.find(key, hash); l != nil {
		return l
	}
	if n := len(t.buckets); int(t.len) == n {
		t.resize(max(minBuckets, 2*n))
	}
	l := t.free
	if l != nil {
		t.free, l.chain = l.chain, nil
		t.nfree--
	} else {
		l = &keyList[K]{shard: s}
		l.unordered.Init(l)
	}
	l.key, l.hash = key, hash
	b := t.bucket(hash)
	l.chain, *b = *b, l
	t.len++
	return l
}

// remove takes l, which is empty, out of the table.
func (t *table[K]) remove(l *keyList[K]) {
	for b := t.bucket(l.hash); ; b = &(*b).chain {
		if *b == l {
			*b = l.chain
			break
		}
	}
	t.len--
	l.chain = nil
	if l.ordered != nil {
		l.ordered.index.reset()
	}
	if !l.signalled { // otherwise whoever takes it from the queue recycles it
		t.recycle(l)
	}
	if n := len(t.buckets); n > minBuckets && int(t.len) < n/8 {
		t.resize(n / 2)
	}
}

// recycle keeps l for another key.
func (t *table[K]) recycle(l *keyList[K]) {
	var none K
	l.key = none
	if t.nfree < maxFree {
		l.chain, t.free = t.free, l
		t.nfree++
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

// all calls f for every list. f must not change the table.
func (t *table[K]) all(f func(*keyList[K])) {
	for _, l := range t.buckets {
		for ; l != nil; l = l.chain {
			f(l)
		}
	}
}
