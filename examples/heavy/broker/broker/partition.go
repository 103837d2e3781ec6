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
		isr         []int32 // all that the controller believes in sync, and perhaps more

		// Of the leader only.
		followers map[int32]*follower
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

func newPartition(b *Broker, tp topicPartition, log *commitlog.Log) *partition {
	p := &partition{topicPartition: tp, broker: b}
	p.mu.log, p.mu.high = log, log.Start()
	p.mu.leader, p.mu.leaderEpoch, p.mu.epoch = controller.Nobody, -1, -1
	return p
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
			p.leadLocked(now)
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

// leadLocked begins a leadership. Nothing is known of the followers until they
// fetch, and until then nothing more is committed.
func (p *partition) leadLocked(now time.Time) {
	p.mu.followers = make(map[int32]*follower)
	for _, id := range p.mu.replicas {
		if id != p.broker.config.ID {
			p.mu.followers[id] = &follower{end: -1, caughtUp: now}
		}
	}
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

// append adds a producer's batch and returns where it begins, and the position
// that the high watermark has to reach under this leader epoch.
func (p *partition) append(records []byte, acks int16) (base, end int64, epoch int32, pr progress, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !p.leadsLocked():
		err = kerr.NotLeaderForPartition
	case len(records) > maxBatchBytes:
		err = kerr.MessageTooLarge
	case acks == -1 && p.tooFewLocked():
		err = kerr.NotEnoughReplicas
	case !p.roomLocked(len(records)):
		err = kerr.KafkaStorageError
	}
	if err != nil {
		return -1, 0, 0, pr, err
	}
	before := p.mu.log.End()
	base, end, err = p.mu.log.Append(records, p.mu.leaderEpoch)
	if err != nil {
		return -1, 0, 0, pr, err
	}
	pr = p.advanceLocked() // alone in the in-sync set, a leader commits at once
	pr.endBytes, pr.endMoved = p.mu.log.Position(p.mu.log.End()), p.mu.log.End() > before
	return base, end, p.mu.leaderEpoch, pr, nil
}

// roomLocked drops the oldest committed records to make room for size bytes; false
// when what is left is not committed and too much.
func (p *partition) roomLocked(size int) bool {
	limit := p.broker.share()
	p.mu.log.Retain(limit-size, p.mu.high)
	return p.mu.log.Size()+size <= limit
}

// share is how many bytes a partition may keep.
func (b *Broker) share() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return max(maxLogBytes/max(1, len(b.mu.partitions)), 2*maxBatchBytes)
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
