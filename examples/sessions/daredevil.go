package main

import (
	"context"
	"math/rand/v2"
	"time"
)

// daredevil sends the heartbeats of sessions that speak just when their timeout passes: some are in time, some are not, and what
// Extend answers must be what happens.
type daredevil struct {
	registry *registry
	run      *observed
	cfg      config
	sessions []*session // in the order in which they were opened, and so of their deadlines

	inTime, tooLate int64
}

// nerve is how long before the deadline a session speaks at the earliest. What it intends and what it does differ by as much as
// a sleep is late, so that it speaks on both sides of its deadline.
const nerve = 2 * time.Millisecond

func (d *daredevil) beat(ctx context.Context, random *rand.Rand) {
	queue := d.sessions
	alarm := time.NewTimer(0)
	defer alarm.Stop()
	for len(queue) > 0 {
		s := queue[0]
		queue = queue[1:]
		at := s.spoke + d.cfg.timeout - time.Duration(random.Int64N(int64(nerve)))
		alarm.Reset(at - d.run.now())
		select {
		case <-ctx.Done():
			return
		case <-alarm.C:
		}
		d.run.heartbeats.Add(1)
		if s.beat(d.registry, d.cfg.timeout, d.run.now()) {
			d.inTime++
			queue = append(queue, s)
		} else {
			d.tooLate++
		}
	}
}
