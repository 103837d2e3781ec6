package model

import "slices"

// Result is what a run shows.
type Result struct {
	Rate    float64 // operations in a second
	WaitP99 float64 // ns from the call of Lock until the goroutine has the lock
	Moving  float64 // the share of the cores' time in which they wait for cache lines
	Busiest string  // the kind of lock that is held for the largest part of the time, and that part
	Held    float64
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

// length is for how long machines are simulated, in ns; a third of it is not counted.
var length = 6e6

// Run simulates l on m.
func (l Load) Run(m Machine, k Costs) (r Result) {
	warm, until := length/3, length
	if l.Name == "herd" { // whole rounds
		warm, until = 10*warm, 10*until
	}
	s, span := newSim(m), until-warm
	l.build(s, k)
	s.run(warm, until)
	r.Rate, r.Moving = s.ops/span*1e9, s.moved/span/float64(m.Cores)
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
