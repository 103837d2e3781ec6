package main

import (
	"fmt"

	"github.com/delayedop/purgatory/operation"
)

// maxNamed is how many sessions are named for each promise that was broken.
const maxNamed = 3

// verify checks every session after everything has stopped.
func (c *crowd) verify() []string {
	var r complaints
	var byOutcome [operation.NumOutcomes]int64
	for _, s := range c.sessions {
		byOutcome[s.Outcome()]++
		c.judge(s, &r)
	}
	stats := c.registry.Stats()
	for o := operation.Pending; o < operation.NumOutcomes; o++ {
		counted := stats.Ended(o)
		if o == operation.Pending {
			counted = stats.Pending
		}
		if counted != byOutcome[o] {
			r.addf("the registry counts %d sessions as %v, there are %d", counted, o, byOutcome[o])
		}
	}
	return r.all()
}

// judge says what was wrong with one session.
func (c *crowd) judge(s *session, r *complaints) {
	ends, finds, outcome := s.ends.Load(), s.finds.Load(), s.Outcome()
	expired := outcome == operation.Expired
	if ends != 1 {
		r.addf("session %d ended %d times", s.id, ends)
	}
	if finds > 1 || (finds == 1) != expired {
		r.addf("session %d was found %d times, and has ended as %v", s.id, finds, outcome)
	}
	if !expired && outcome != operation.Satisfied {
		r.addf("session %d has ended as %v, it can only be found or say goodbye", s.id, outcome)
	}
	if s.silent() && !expired && !c.interrupted {
		r.addf("session %d has fallen silent at %v and was not found", s.id, s.lastWords)
	}
	if s.wrongly {
		r.addf("session %d was refused a heartbeat that was in time", s.id)
	}
	if s.refused && !expired {
		r.addf("session %d was refused a heartbeat and was not found", s.id)
	}
	if early := s.deadline(c.cfg.timeout) - s.foundAt(); finds > 0 && early > 0 {
		r.addf("session %d spoke in time and was found, %v before its timeout", s.id, early)
	}
}

// complaints are kept by kind, so that one kind does not hide the others.
type complaints struct {
	kinds []string
	lines map[string][]string
	count map[string]int
}

func (r *complaints) addf(format string, args ...any) {
	if r.lines == nil {
		r.lines, r.count = make(map[string][]string), make(map[string]int)
	}
	if r.count[format]++; r.count[format] == 1 {
		r.kinds = append(r.kinds, format)
	}
	if r.count[format] <= maxNamed {
		r.lines[format] = append(r.lines[format], fmt.Sprintf(format, args...))
	}
}

func (r *complaints) all() (all []string) {
	for _, kind := range r.kinds {
		all = append(all, r.lines[kind]...)
		if more := r.count[kind] - maxNamed; more > 0 {
			all = append(all, fmt.Sprintf("… and %d more like it", more))
		}
	}
	return all
}
