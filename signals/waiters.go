package signals

import "iter"

// Waiters receives the hints of a [Runner]. A *purgatory.DelayedOperationPurgatory and the
// result of [Several] are Waiters.
type Waiters[K comparable] interface {
	// Hint signals key up to position, and reports whether an operation waits for key.
	SignalUpTo(key K, position int64) (awaited bool)
	// SignalAll signals every key.
	SignalAll()
	// Keys returns the keys that are waited for.
	Keys() iter.Seq[K]
}

// Several combines purgatories that need the same hints, for example the fetches and the
// joins of a broker. The function of [WithResync] gets a key that is waited for in two of
// them twice.
func Several[K comparable](all ...Waiters[K]) Waiters[K] { return several[K](all) }

type several[K comparable] []Waiters[K]

func (s several[K]) SignalUpTo(key K, position int64) (awaited bool) {
	for _, w := range s {
		awaited = w.SignalUpTo(key, position) || awaited
	}
	return awaited
}

func (s several[K]) SignalAll() {
	for _, w := range s {
		w.SignalAll()
	}
}

func (s several[K]) Keys() iter.Seq[K] {
	return func(yield func(K) bool) {
		for _, w := range s {
			for key := range w.Keys() {
				if !yield(key) {
					return
				}
			}
		}
	}
}
