package model

import "slices"

// Result is what a run shows.
type Result struct {
	Rate    float64 // operations in a second
	WaitP99 float64 // ns from the call of Lock until the goroutine has the lock
	Waiting float64 // ns that goroutines wait for locks in a ns of a core
	Moving  float64 // the share of the cores' time in which they wait for cache lines
	Busiest string  // the kind of lock that is held for the largest part of the time, and that part
	Held    float64
}

// Run simulates l on m.
func (l Load) Run(m Machine, k Costs) Result {
	const warm, until = 2e6, 6e6
	if l.Name == "herd" { // whole rounds
		return runFor(m, k, l.build, 10*warm, 10*until)
	}
	return runFor(m, k, l.build, warm, until)
}

// Starving returns the share of the waits for the lock that last for a millisecond and more.
func (b Bare) Starving(m Machine) float64 {
	s := newSim(m)
	b.build(s, Costs{})
	s.run(0, 2e8)
	waited, starved := 0, 0
	for _, wait := range s.waits {
		if wait > AWait {
			waited++
		}
		if wait > starveFor {
			starved++
		}
	}
	return float64(starved) / float64(max(waited, 1))
}

// AWait is for how long a goroutine that takes a lock at once takes at most, in ns.
const AWait = 200

func runFor(m Machine, k Costs, load func(*Sim, Costs), warm, until float64) (r Result) {
	s := newSim(m)
	load(s, k)
	s.run(warm, until)
	span := until - warm
	r.Rate, r.Waiting = s.ops/span*1e9, s.waited/span/float64(m.Cores)
	r.Moving = s.moved / span / float64(m.Cores)
	if slices.Sort(s.waits); len(s.waits) > 0 {
		r.WaitP99 = s.waits[len(s.waits)*99/100]
	}
	for lock, held := range s.busy {
		if held /= span; held > r.Held {
			r.Busiest, r.Held = lock.name, held
		}
	}
	return r
}
