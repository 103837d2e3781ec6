package watchers

import (
	"iter"

	"github.com/delayedop/purgatory/internal/machine"
)

// Found is a key for which operations wait, and one of them.
type Found[K comparable] struct {
	Wait[K]     // without its position
	Waiting int // for the key
	Machine *machine.Machine
}

// Each returns an iterator over the first so many operations of each key, in no order of the keys: with 0, over each key
// once, with no operation. It holds no lock while the loop's body runs. A body that may block asks for no operation: one
// that ends meanwhile would stay in memory.
func (w *Watchers[K]) Each(perKey int) iter.Seq[Found[K]] {
	return func(yield func(Found[K]) bool) {
		var all []Found[K]
		for s := range w.shards() {
			all = all[:0]
			s.lock()
			for _, l := range s.mu.keys.buckets {
				for ; l != nil; l = l.chain {
					f := Found[K]{Wait: Wait[K]{Key: l.key, Hash: l.hash}, Waiting: l.Len()}
					if perKey == 0 {
						all = append(all, f)
					}
					for w, n := l.First(), 0; w != nil && n < perKey; w = l.Next(w) {
						if f.Machine = w.Machine; f.Machine != nil { // else it is a mark
							all = append(all, f)
							n++
						}
					}
				}
			}
			s.mu.Unlock()
			for _, f := range all {
				if !yield(f) {
					return
				}
			}
		}
	}
}

// Waiting returns how many operations wait for the key of at.
func (w *Watchers[K]) Waiting(at Wait[K]) int {
	s := w.used(at.Hash)
	if s == nil {
		return 0
	}
	s.lock()
	defer s.mu.Unlock()
	return s.waitingLocked(at)
}
