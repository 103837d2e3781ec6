//go:build interleave

package explore

import (
	"fmt"
	"strings"
)

// move says that thread to runs after the at-th point of thread of. Thread 0 is Setup: its
// move says which thread begins. Where no move applies, the current thread goes on, or if it
// cannot, the first thread that can. Moves refer to a thread's own points, so that a schedule
// without one of its moves still makes sense.
type move struct{ of, at, to int }

// format returns a schedule as text: "of.at-to,…", and "none" if there is no move.
func format(moves []move) string {
	if len(moves) == 0 {
		return "none"
	}
	var out strings.Builder
	for i, m := range moves {
		if i > 0 {
			out.WriteByte(',')
		}
		fmt.Fprintf(&out, "%d.%d-%d", m.of, m.at, m.to)
	}
	return out.String()
}

// hash returns the FNV-1a hash of a schedule, a number at a time.
func hash(moves []move) uint64 {
	h := uint64(14695981039346656037)
	for _, m := range moves {
		for _, n := range [...]int{m.of, m.at, m.to} {
			h = (h ^ uint64(n)) * 1099511628211
		}
	}
	return h
}

// parse is the inverse of format.
func parse(schedule string) (moves []move, err error) {
	if schedule == "none" {
		return nil, nil
	}
	for part := range strings.SplitSeq(schedule, ",") {
		var m move
		if _, err := fmt.Sscanf(part, "%d.%d-%d", &m.of, &m.at, &m.to); err != nil {
			return nil, fmt.Errorf("explore: %q is not a schedule: %w", schedule, err)
		}
		moves = append(moves, m)
	}
	return moves, nil
}

// replay makes the moves of a schedule. A move to a thread that cannot run is left out.
type replay struct{ moves []move }

func (r *replay) spawned(*thread) {}

func (r *replay) stays(_ *run, me *thread) bool { return r.find(me.id, me.at) == 0 }

func (r *replay) pick(_ *thread, options []*thread) *thread {
	of, at := 0, 0
	if c := active.current; c != nil {
		of, at = c.id, c.at
	}
	to := r.find(of, at)
	for _, t := range options {
		if t.id == to {
			return t
		}
	}
	return options[0]
}

// find returns the thread to which the schedule moves, or 0.
func (r *replay) find(of, at int) (to int) {
	for _, m := range r.moves {
		if m.of == of && m.at == at {
			return m.to
		}
	}
	return 0
}
