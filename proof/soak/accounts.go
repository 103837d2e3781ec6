package main

import (
	"fmt"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// accounts compares what the purgatory says with what its users have seen. No worker
// of the mix takes a step meanwhile; those of the purgatory do, so it asks until
// everything agrees.
func (m *mix) accounts() (s purgatory.Stats, err error) {
	agreed := eventually(func() bool {
		s, err = m.compare()
		return err == nil || m.violations.Load() > 0
	})
	if first := m.first.Load(); first != nil {
		return s, fmt.Errorf("%d violations, the first: %s", m.violations.Load(), *first)
	}
	if !agreed {
		return s, err
	}
	return s, nil
}

func (m *mix) compare() (purgatory.Stats, error) {
	// In this order: what ends in between is missing in the accepted, and counts as
	// pending or ended in the next round.
	var seen [operation.Outcomes]int64
	total := int64(0)
	for o := range seen {
		seen[o] = m.ended[o].Load()
		total += seen[o]
	}
	s := m.p.Stats()
	if accepted := m.accepted.Load(); accepted != total+s.Pending {
		return s, fmt.Errorf("%d accepted, %d ended, %d pending", accepted, total, s.Pending)
	}
	for o := operation.Satisfied; o < operation.Outcomes; o++ {
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

// drained ends everything, and returns the memory that is left.
func (m *mix) drained(workers []*worker) (uint64, error) {
	for _, w := range workers {
		w.forget()
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
