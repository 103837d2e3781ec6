package main

import (
	"fmt"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// accounts compares the purgatory's statistics with the counts of the operations. The
// workers of the mix are stopped meanwhile. Those of the purgatory are not, so accounts
// repeats the comparison until everything agrees.
func (m *mix) accounts() (s purgatory.Stats, err error) {
	agreed := eventually(func() bool {
		s, err = m.compare()
		return err == nil || m.violations.Load() > 0
	})
	if first := m.first.Load(); first != "" {
		return s, fmt.Errorf("%d violations, the first: %s", m.violations.Load(), first)
	}
	if !agreed {
		return s, err
	}
	return s, nil
}

func (m *mix) compare() (purgatory.Stats, error) {
	// Read ended before Stats: an operation that ends in between is missing in both
	// ended and pending. The next round counts it.
	var seen [operation.NumOutcomes]int64
	total := int64(0)
	for o := range seen {
		seen[o] = m.ended[o].Load()
		total += seen[o]
	}
	s := m.p.Stats()
	if accepted := m.accepted.Load(); accepted != total+s.Pending {
		return s, fmt.Errorf("%d accepted, %d ended, %d pending", accepted, total, s.Pending)
	}
	for o := operation.Satisfied; o < operation.NumOutcomes; o++ {
		if s.Ended(o) != seen[o] {
			return s, fmt.Errorf("%d have been told that they are %v, the statistics say %d", seen[o], o, s.Ended(o))
		}
	}
	expirations := m.expirations.Load() + m.awaited.Load()
	if s.Expired != expirations {
		return s, fmt.Errorf("%d expired, %d OnExpiration", s.Expired, expirations)
	}
	if thrown, reported := m.thrown.Load(), m.reported.Load(); thrown != reported || s.Panics != reported {
		return s, fmt.Errorf("%d panics, %d reported, %d counted", thrown, reported, s.Panics)
	}
	if s.Watched < s.Pending || s.Watched > 3*s.Pending+s.Stale+1 || s.Keys > s.Watched {
		return s, fmt.Errorf("%d pending with %d entries under %d keys", s.Pending, s.Watched, s.Keys)
	}
	if int64(m.p.NumDelayed()) != s.Pending {
		return s, fmt.Errorf("NumDelayed says %d, Stats %d", m.p.NumDelayed(), s.Pending)
	}
	return s, nil
}

// drained ends all operations, waits until the purgatory is empty, and returns the heap.
func (m *mix) drained(workers []*worker) (uint64, error) {
	for _, w := range workers {
		w.cancelAll()
	}
	var s purgatory.Stats
	if !eventually(func() bool {
		s = m.p.Stats()
		return s.Pending == 0 && s.Watched == 0 && s.Keys == 0 && s.Stale == 0
	}) {
		return 0, fmt.Errorf("after everything has ended there are %d pending, %d entries, %d keys, %d stale",
			s.Pending, s.Watched, s.Keys, s.Stale)
	}
	return heap(), nil
}
