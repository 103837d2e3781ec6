package broker

import (
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/delayedop/purgatory/examples/heavy/broker/commitlog"
	"github.com/delayedop/purgatory/examples/heavy/broker/controller"
)

type topicPartition = controller.TopicPartition

// partition is this broker's replica of a partition: the leader's or a
// follower's. Safe for concurrent use. Under its lock only the controller's and the
// broker's are taken, and no purgatory is called. What a change makes possible for
// those who wait is returned as progress, and looked after once unlocked.
type partition struct {
	topicPartition
	broker *Broker

	mu struct {
		sync.Mutex
		log         *commitlog.Log
		high        int64 // the high watermark: everything below is on all in-sync replicas
		leader      int32
		leaderEpoch int32
		epoch       int32 // of leader and isr; the controller counts it
		replicas    []int32
		isr         []int32             // all that the controller believes in sync, and perhaps more
		followers   map[int32]*follower // of the leader only
	}
}

// follower is what the leader knows of a follower, from its fetches.
type follower struct {
	end      int64     // of its log; -1 until it has fetched
	caughtUp time.Time // when it last had all that the leader had at the fetch before
	lastEnd  int64     // the leader's at the last fetch
}

// progress is how far the ends moved for those who wait for them: producers wait
// for an offset, fetches for a position in bytes.
type progress struct {
	high                int64
	highBytes, endBytes int64
	endMoved, highMoved bool
	leaderMoved         bool // another, or the same one elected anew: what waits here waits in vain
}

func (p *partition) leadsLocked() bool { return p.mu.leader == p.broker.config.ID }

func (p *partition) apply(s *controller.Partition, now time.Time) (pr progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.Epoch <= p.mu.epoch {
		return pr
	}
	p.setInSyncLocked(s.ISR)
	p.mu.epoch, p.mu.replicas = s.Epoch, s.Replicas
	moved := s.LeaderEpoch > p.mu.leaderEpoch
	if moved {
		p.mu.leader, p.mu.leaderEpoch = s.Leader, s.LeaderEpoch
		p.mu.followers = nil
		switch {
		case p.leadsLocked():
			// Nothing is known of the followers until they fetch.
			p.mu.followers = make(map[int32]*follower)
			for _, id := range p.mu.replicas {
				if id != s.Leader {
					p.mu.followers[id] = &follower{end: -1, caughtUp: now}
				}
			}
		case s.Leader >= 0:
			// What it has beyond the new leader's log must go. It is not in sync, so
			// it may as well copy everything.
			p.mu.log.Restart(0)
			p.mu.high = 0
		}
	}
	if p.leadsLocked() {
		pr = p.advanceLocked()
	}
	pr.leaderMoved = moved
	return pr
}

// setInSyncLocked takes what the controller has decided. Of a follower that has
// fallen out, what was known is old: it has to fetch before it can come back.
func (p *partition) setInSyncLocked(isr []int32) {
	p.mu.isr = isr
	for id, f := range p.mu.followers {
		if !slices.Contains(isr, id) {
			f.end = -1
		}
	}
}

// advanceLocked moves the high watermark to the least end of an in-sync log.
func (p *partition) advanceLocked() (pr progress) {
	high := p.mu.log.End()
	for id, f := range p.mu.followers {
		if slices.Contains(p.mu.isr, id) {
			high = min(high, f.end)
		}
	}
	if high > p.mu.high {
		p.mu.high = high
		pr.high, pr.highBytes, pr.highMoved = high, p.mu.log.Position(high), true
	}
	return pr
}

// append adds a producer's batch and returns where it begins, and what acks=all has to
// wait for.
func (p *partition) append(records []byte, acks int16) (base int64, a appendedBatch, pr progress, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !p.leadsLocked():
		err = kerr.NotLeaderForPartition
	case len(records) > maxBatchBytes:
		err = kerr.MessageTooLarge
	case acks == -1 && p.tooFewLocked():
		err = kerr.NotEnoughReplicas
	}
	if err != nil {
		return 0, a, pr, err
	}
	before := p.mu.log.End()
	p.mu.log.Retain(maxLogBytes-len(records), p.mu.high)
	a.partition, a.epoch = p, p.mu.leaderEpoch
	base, a.end, err = p.mu.log.Append(records, a.epoch)
	pr = p.advanceLocked() // alone in the in-sync set, a leader commits at once
	pr.endBytes, pr.endMoved = p.mu.log.Position(p.mu.log.End()), p.mu.log.End() > before
	return base, a, pr, err
}

// tooFewLocked says whether too few replicas are in sync for acks=all. More than
// there are of the partition nobody can ask for.
func (p *partition) tooFewLocked() bool {
	return len(p.mu.isr) < min(p.broker.config.MinInsyncReplicas, len(p.mu.replicas))
}

// replicated says whether the wait for end is over, and with which error.
func (p *partition) replicated(epoch int32, end int64) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !p.leadsLocked() || p.mu.leaderEpoch != epoch:
		return true, kerr.NotLeaderForPartition // what is at end now may be another's
	case p.mu.high < end:
		return false, nil
	case p.tooFewLocked():
		return true, kerr.NotEnoughReplicasAfterAppend
	}
	return true, nil
}

// leaderLocked checks that a request has come to the leader that it thinks it
// has come to; currentEpoch is -1 where the client does not know.
func (p *partition) leaderLocked(currentEpoch int32) error {
	switch {
	case !p.leadsLocked():
		return kerr.NotLeaderForPartition
	case currentEpoch >= 0 && currentEpoch < p.mu.leaderEpoch:
		return kerr.FencedLeaderEpoch
	case currentEpoch > p.mu.leaderEpoch:
		return kerr.UnknownLeaderEpoch
	}
	return nil
}

// view is what one fetch sees of a partition.
type view struct {
	err               error
	below             int64 // the offset where the sight of this client ends
	position, visible int64 // where a read begins, and where sight ends, in bytes
}

func (p *partition) view(req *kmsg.FetchRequestTopicPartition, follower bool) view {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.viewLocked(req, follower)
}

func (p *partition) viewLocked(req *kmsg.FetchRequestTopicPartition, follower bool) view {
	log := p.mu.log
	v := view{below: p.mu.high, err: p.leaderLocked(req.CurrentLeaderEpoch)}
	if follower {
		v.below = log.End()
	}
	if v.err == nil && (req.FetchOffset < log.Start() || req.FetchOffset > log.End()) {
		v.err = kerr.OffsetOutOfRange // above the high watermark a consumer waits
	}
	v.position, v.visible = log.Position(req.FetchOffset), log.Position(v.below)
	return v
}

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
	answer, err := b.config.Controller.Alter(b.session.Load(), p.topicPartition, p.mu.leaderEpoch, p.mu.epoch, set)
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
