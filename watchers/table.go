package watchers

import "github.com/delayedop/purgatory/operation"

// keyList is a key and those who wait for it.
type keyList[K comparable] struct {
	unordered operation.List // in the order in which they came
	ordered   operation.List // in order of position
	index     positionIndex

	key   K
	hash  uint64
	shard *Shard[K]
	chain *keyList[K] // next in the table's bucket, or in its free list

	readers int // cursors that stand in it: it must not be forgotten

	signal signal[K]
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
	shard   *Shard[K]
	buckets []*keyList[K] // a power of two, or none
	len     int
	free    *keyList[K]
	nfree   int
}

const (
	minBuckets = 8
	maxFree    = 64 // empty lists kept for the next key
)

func (t *table[K]) init(s *Shard[K]) { t.shard = s }

// bucket uses the upper half of the hash: the lower bits chose the shard.
func (t *table[K]) bucket(hash uint64) **keyList[K] {
	return &t.buckets[(hash>>32)&uint64(len(t.buckets)-1)]
}

func (t *table[K]) find(key K, hash uint64) *keyList[K] {
	if t.len == 0 {
		return nil
	}
	for l := *t.bucket(hash); l != nil; l = l.chain {
		if l.hash == hash && l.key == key {
			return l
		}
	}
	return nil
}

func (t *table[K]) findOrAdd(key K, hash uint64) *keyList[K] {
	if l := t.find(key, hash); l != nil {
		return l
	}
	if t.len == len(t.buckets) {
		t.resize(max(minBuckets, 2*t.len))
	}
	l := t.free
	if l != nil {
		t.free, l.chain = l.chain, nil
		t.nfree--
	} else {
		l = &keyList[K]{shard: t.shard}
		l.unordered.Init(l)
		l.ordered.Init(l)
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
	l.index.reset()
	if !l.signal.queued { // otherwise whoever takes it from the queue recycles it
		t.recycle(l)
	}
	if len(t.buckets) > minBuckets && t.len < len(t.buckets)/8 {
		t.resize(len(t.buckets) / 2)
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
