package watchers

import "github.com/delayedop/purgatory/internal/machine"

// keyList is a key and the operations that wait for it.
//
// The fields that are written when an operation is linked or unlinked fill one cache
// line. The fields that are only read then are in the next one. See [Shard] for the
// reason.
type keyList[K comparable] struct {
	machine.List // in order of position, see lastUpTo
	shard        *Shard[K]

	hash    uint64
	key     K
	chain   *keyList[K] // next in the table's bucket, or in its free list
	ordered *ordered    // nil until an operation waits for a position

	readers   int32 // cursors that stand in the list; the key stays in the table until it is 0
	signalled bool  // the key is in the shard's queue of signals: a worker will check it
	inOrder   bool  // of signal: the check ends at the first no
	line      bool  // a walk in order has come, see unlinkLocked
	turn      turn  // of walks in order, see Locked.BeginTurn

	before, behind *keyList[K] // in the queue of signals
}

// turn says whether a walk in order has its turn.
type turn uint8

const (
	free   turn = iota // none has
	taken              // one has
	wanted             // one has, and another one has come meanwhile
)

// idle reports whether neither an operation nor a cursor stands in l, and no walk has its turn.
func (l *keyList[K]) idle() bool { return l.Len() == 0 && l.readers == 0 && l.turn == free }

// End implements [machine.Host].
func (l *keyList[K]) End(m *machine.Machine, o machine.Outcome, cause *error) {
	l.shard.all.config.End(l.shard, m, o, cause)
}

// table is a hash table with chaining. It is not safe for concurrent use. Go's map would hash each key a
// second time, which is 6 % of an operation's life, would never let go of a NaN, and would allocate for keys that come
// and go. Here a key is hashed once for shard and table together, who knows the hash of a NaN finds it, and
// entries are used again. See docs/decisions.md#a-hash-table-of-our-own.
type table[K comparable] struct {
	free  *keyList[K]
	nfree int32
	len   int32
	// buckets has a power of two of elements, at least minBuckets. It is the last field because its
	// capacity is never read and may lie in the next cache line, see Shard.
	buckets []*keyList[K]
}

const (
	minBuckets = 8
	maxFree    = 64 // largest number of keyLists that are kept for later keys
)

// bucket uses the upper half of the hash, because the lower bits have chosen the shard.
func (t *table[K]) bucket(hash uint64) **keyList[K] {
	return &t.buckets[(hash>>32)&uint64(len(t.buckets)-1)]
}

// find returns the list of key. A key that is not equal to itself, such as a NaN, has a random hash,
// by which it is found.
func (t *table[K]) find(key K, hash uint64) *keyList[K] {
	for l := *t.bucket(hash); l != nil; l = l.chain {
		if l.hash == hash && (l.key == key || l.key != l.key) { // unequal: a NaN
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
		t.resize(2 * n)
	}
	l := t.free
	if l != nil {
		t.free, l.chain = l.chain, nil
		t.nfree--
	} else {
		l = &keyList[K]{shard: s}
		l.Init(l)
	}
	l.key, l.hash = key, hash
	b := t.bucket(hash)
	l.chain, *b = *b, l
	t.len++
	return l
}

// remove takes l, which is idle, out of the table. To keep it there for the next operation is slower: see
// docs/decisions.md#an-empty-key-leaves-the-map-at-once.
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
		l.ordered.reset()
	}
	var none K
	l.key, l.line = none, false
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
