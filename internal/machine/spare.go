package machine

import "unsafe"

// Spare is a free list of the arrays of watches that ended operations have used. A new
// operation on several keys takes one of them instead of allocating. The zero value is
// empty. A Spare is not safe for concurrent use: the lock of the watcher shard that
// owns it guards it. See docs/decisions.md#the-array-of-watches-is-lent.
//
// An array in a Spare is referred to by nothing else:
//
//  1. Only three things refer to a watch: the holder of its operation, its list, and
//     the goroutine that takes it out of the list, if it is stale there.
//  2. The holder gives the array back and drops its own reference.
//  3. The holder does so only after it has unlinked every watch of the array itself,
//     each under the lock of its list: none is stale.
type Spare struct {
	watches int // total number in arrays

	// arrays[i] is a chain of arrays of i+1 watches, linked by next of their first watch.
	arrays [maxSpareLen]*Watch
}

const (
	maxSpareLen     = 7   // longer arrays are not kept
	maxSpareWatches = 128 // bounds the memory of one Spare
)

// Lend gives m an array for its watches beyond the first, if there is one of the right
// length. The caller holds m and has not linked these watches yet.
func (s *Spare) Lend(m *Machine) {
	n := m.extra()
	if n > len(s.arrays) || s.arrays[n-1] == nil {
		return
	}
	first := s.arrays[n-1]
	s.arrays[n-1], first.next = first.next, nil
	s.watches -= n
	m.tail = unsafe.Pointer(first) // safe: first begins an array of m.extra() watches
}

// Take takes the array away from m, and keeps it if there is room. The caller holds m,
// is about to end it, and has unlinked its watches.
func (s *Spare) Take(m *Machine) {
	array := m.Extra()
	m.tail = nil
	n := len(array)
	if n > len(s.arrays) || s.watches+n > maxSpareWatches {
		return
	}
	for i := range array {
		array[i].machine = nil // so that the watch does not keep the operation in memory
	}
	array[0].next, s.arrays[n-1] = s.arrays[n-1], &array[0]
	s.watches += n
}
