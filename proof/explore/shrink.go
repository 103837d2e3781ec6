//go:build interleave

package explore

import "slices"

// shrinkLimit is how many schedules Shrink tries for each number of preemptions.
const shrinkLimit = 20_000

// Shrink looks for a failing schedule with fewer moves than that of r, which has failed. First
// it runs all schedules without a preemption, then those with one, two and three, as far as
// shrinkLimit goes. A schedule that this finds has the fewest preemptions. Otherwise it leaves
// out the moves of r as long as the rest fails.
func (e Exploration) Shrink(r Result) Result {
	moves, err := parse(r.Schedule)
	if err != nil {
		return r
	}
	for e.Preemptions = 0; e.Preemptions <= 3; e.Preemptions++ {
		e.Limit = shrinkLimit
		if found := e.Explore(); found.Failure != nil {
			if fewer, err := parse(found.Schedule); err == nil && len(fewer) < len(moves) {
				r, moves = found, fewer
			}
			break
		}
	}
	for size := max(1, len(moves)/2); ; size = max(1, size/2) {
		shorter := false
		for at := 0; at < len(moves); {
			fewer := slices.Delete(slices.Clone(moves), at, min(at+size, len(moves)))
			s := execute(e.Setup, &replay{moves: fewer}, false)
			if s.failure == nil || len(s.moves) >= len(moves) {
				at += size
				continue
			}
			moves, shorter = s.moves, true
			r.Failure, r.Schedule = s.failure, format(moves)
		}
		if size == 1 && !shorter {
			return r
		}
	}
}
