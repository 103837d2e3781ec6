package main

import (
	"context"
	"math/rand/v2"
	"time"
)

// beater sends the heartbeats of its share of the sessions: each once per interval, in an order that has nothing to do with
// where they lie in memory, as they would come from a network.
type beater struct {
	registry *registry
	run      *observed
	cfg      config
	sessions []*session

	spent time.Duration   // on heartbeats
	sent  int64           // heartbeats
	cost  []time.Duration // of one heartbeat, as a mean over each full batch
}

const (
	// batch is for how many heartbeats the clock is read once, so that the reading does not count as their cost.
	batch = 256

	// pause is between two looks at who has to speak.
	pause = 5 * time.Millisecond
)

func (b *beater) beat(ctx context.Context) {
	if len(b.sessions) == 0 {
		return
	}
	wake := time.NewTicker(pause)
	defer wake.Stop()
	from := b.run.now()
	for done := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-wake.C:
		}
		// Since from, each session should have spoken once per interval.
		due := int(float64(b.run.now()-from) / float64(b.cfg.heartbeat) * float64(len(b.sessions)))
		for done < due && ctx.Err() == nil {
			n := min(batch, due-done, len(b.sessions)-done%len(b.sessions))
			at := done % len(b.sessions)
			b.round(b.sessions[at : at+n])
			done += n
		}
	}
}

// round has sessions speak, unless they have fallen silent or are too late already.
func (b *beater) round(speakers []*session) {
	before := b.run.now()
	sent := 0
	for _, s := range speakers {
		if before > s.lastWords || s.refused {
			continue
		}
		s.beat(b.registry, b.cfg.timeout, before)
		sent++
	}
	spent := b.run.now() - before
	b.run.heartbeats.Add(int64(sent))
	b.spent += spent
	b.sent += int64(sent)
	if sent >= batch*3/4 {
		b.cost = append(b.cost, spent/time.Duration(sent))
	}
}

// shuffled returns the sessions in an order of chance.
func shuffled(sessions []*session, random *rand.Rand) []*session {
	random.Shuffle(len(sessions), func(i, j int) { sessions[i], sessions[j] = sessions[j], sessions[i] })
	return sessions
}
