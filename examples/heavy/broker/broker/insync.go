package broker

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// fetched notes how far a follower has come. What it asks from is what it has,
// unless it asks the wrong leader, or has something else than the leader has.
func (p *partition) fetched(replica int32, req *kmsg.FetchRequestTopicPartition, now time.Time) progress {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.mu.followers[replica]
	if v := p.viewLocked(req, true); f == nil || v.err != nil {
		return progress{}
	}
	if req.FetchOffset >= f.lastEnd {
		f.caughtUp = now
	}
	f.end, f.lastEnd = req.FetchOffset, p.mu.log.End()
	if !slices.Contains(p.mu.isr, replica) {
		return p.improveLocked(now) // it is not waited for; it may be ready to be
	}
	return p.advanceLocked()
}

// improve asks the controller for a better in-sync set than the present one:
// without those that lag, with those that have caught up.
func (p *partition) improve(now time.Time) progress {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.improveLocked(now)
}

// improveLocked takes the set that the controller has agreed to at once, before
// anything else is committed: that may have another broker lead from now on, which
// has everything that is committed so far. A no is for old news; the picture with
// the new is under way.
func (p *partition) improveLocked(now time.Time) progress {
	if !p.leadsLocked() {
		return progress{}
	}
	set := []int32{p.broker.config.ID}
	for id, f := range p.mu.followers {
		if p.inSyncLocked(id, f, now) {
			set = append(set, id)
		}
	}
	slices.Sort(set)
	if slices.Equal(set, slices.Sorted(slices.Values(p.mu.isr))) {
		return progress{}
	}
	b := p.broker
	answer, err := b.controller.Alter(b.session.Load(), p.topicPartition, p.mu.leaderEpoch, p.mu.epoch, set)
	if err != nil {
		return progress{}
	}
	p.setInSyncLocked(answer.ISR)
	if answer.LeaderEpoch == p.mu.leaderEpoch {
		p.mu.epoch = answer.Epoch
	}
	return p.advanceLocked()
}

// inSyncLocked: a member stays until it has lagged too long; another comes in
// with all that is committed.
func (p *partition) inSyncLocked(id int32, f *follower, now time.Time) bool {
	if slices.Contains(p.mu.isr, id) {
		return f.end == p.mu.log.End() || now.Sub(f.caughtUp) <= p.broker.config.MaxLag
	}
	return f.end >= p.mu.high
}
