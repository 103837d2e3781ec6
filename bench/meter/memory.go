package meter

import "runtime"

// Live returns the bytes of heap that are reachable now, and of goroutine stacks: what a design with a goroutine per request
// really holds. It collects twice: what a finaliser or a sync.Pool held over the first collection is gone after the second.
func Live() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// Hold returns about n bytes of live heap as a server has it: records of a kilobyte behind pointers, which the collector
// marks in each cycle. They live until the caller lets go of them (runtime.KeepAlive).
func Hold(n int) any {
	type record struct {
		key   *[16]byte
		value []byte
	}
	const size = 1 << 10
	held := make([]*record, n/size)
	for i := range held {
		held[i] = &record{key: new([16]byte), value: make([]byte, size)}
	}
	return held
}

// Prefault makes about n bytes of fresh heap resident and hands them back to the allocator, so that a measurement that
// follows does not pay the kernel for first touches: these can treble a figure.
func Prefault(n int) {
	const chunk, page = 64 << 10, 4096
	var keep [][]byte
	for ; n > 0; n -= chunk {
		b := make([]byte, chunk)
		for i := 0; i < chunk; i += page {
			b[i] = 1
		}
		keep = append(keep, b)
	}
	runtime.KeepAlive(keep)
	runtime.GC()
}

// PrefaultForGrowth prefaults as much heap as the collector will let the program allocate before its next cycle.
func PrefaultForGrowth() {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	Prefault(max(int(m.HeapAlloc), 8<<20))
}
