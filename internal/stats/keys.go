package stats

// CountsKeys reports whether Tried counts anything. If not, it must not be called. The caller need
// not hold the shard's lock.
func (o *Observer[K]) CountsKeys() bool { return o != nil && o.countsKeys }

// Tried counts tries that a check of key has made, and how many of them were wasted.
func (o *Observer[K]) Tried(key K, hash uint64, tries, wasted int64) {
	counts := o.hot.count(key, hash, tries, o.now())
	counts.Tries += tries
	counts.Wasted += wasted
}

// Keys appends the counts of keys: to hot those of the keys with the most operations and
// tries, to expiring those of the keys with the most expiries. waiting must return how
// many operations wait for a key.
func (o *Observer[K]) Keys(hot, expiring []KeyCounts[K], waiting func(key K, hash uint64) int) (_, _ []KeyCounts[K]) {
	if !o.CountsKeys() {
		return hot, expiring
	}
	for i, c := range o.hot.keys {
		c.Hash = o.hot.hashes[i]
		c.Waiting = waiting(c.Key, c.Hash)
		hot = append(hot, c)
	}
	for i, c := range o.expiring.keys {
		c.Hash = o.expiring.hashes[i]
		c.Waiting = waiting(c.Key, c.Hash)
		// These are counted in the sketch hot only.
		if busy := o.hot.find(c.Key, c.Hash); busy != nil {
			c.Watched, c.Tries, c.Wasted = busy.Watched, busy.Tries, busy.Wasted
		}
		expiring = append(expiring, c)
	}
	return hot, expiring
}
