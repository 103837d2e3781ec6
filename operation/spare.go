package operation

import "unsafe"

// Spare keeps arrays of watches, of operations that have ended, for the next ones: so
// that an operation on several keys allocates nothing but itself while operations come
// and go. Its zero value is empty. It is not safe for concurrent use: the watcher shard
// that owns it has the lock.
//
// Nobody else refers to a watch of an array that is given back. (1) To refer to a watch
// is for its operation's holder, its list, and a purge that it was left to. (2) The
// holder gives it back, and forgets it. (3) It does so when it has unlinked all of the
// array's watches itself, each under its list's lock, and has left none to a purge.
type Spare struct {
	watches int                 // in arrays
	arrays  [maxSpareLen]*Watch // of i+1 watches, a chain by next of the first one
}

const (
	maxSpareLen     = 7
	maxSpareWatches = 128
)

// Lend gives m, whose watches beyond the first are not linked yet, an array for them,
// if there is one.
func (s *Spare) Lend(m *Machine) {
	n := m.extra()
	if n > len(s.arrays) || s.arrays[n-1] == nil {
		return
	}
	first := s.arrays[n-1]
	s.arrays[n-1], first.next = first.next, nil
	s.watches -= n
	m.tail = unsafe.Pointer(first)
}

// Take takes the array away from m, which the caller holds and is ending, and keeps it
// if there is room.
func (s *Spare) Take(m *Machine) {
	array := m.Extra()
	m.tail = nil
	n := len(array)
	if n > len(s.arrays) || s.watches+n > maxSpareWatches {
		return
	}
	for i := range array {
		array[i].machine = nil // it must not keep the operation
	}
	array[0].next, s.arrays[n-1] = s.arrays[n-1], &array[0]
	s.watches += n
}
