package broker

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/delayedop/purgatory/examples/broker/commitlog"
)

// topicPartition names a partition. Two topics of one name, one after the
// other, have different ids.
type topicPartition struct {
	topic [16]byte
	n     int32
}

func (tp topicPartition) compare(other topicPartition) int {
	return cmp.Or(bytes.Compare(tp.topic[:], other.topic[:]), cmp.Compare(tp.n, other.n))
}

// String names the topic by the beginning of its id, which is random.
func (tp topicPartition) String() string {
	return fmt.Sprintf("topic %x partition %d", tp.topic[:4], tp.n)
}

// partition is this broker's replica of a partition: the leader's or a
// follower's. Safe for concurrent use. Its lock is a leaf: nothing is called
// under it that locks, and no purgatory. What a change makes possible for
// those who wait is returned as progress, and looked after once unlocked.
type partition struct {
	topicPartition
	name   string // of the topic
	broker int32  // whose replica this is
	config *Config
	memory *holdings

	mu struct {
		sync.Mutex
		log         *commitlog.Log
		counted     int   // bytes of the log that are taken from the budget
		full        bool  // there was no room for the last records, and it was logged
		high        int64 // the high watermark: everything below is on all in-sync replicas
		leader      int32
		leaderEpoch int32
		epoch       int32 // of leader and isr; the controller counts it
		replicas    int
		isr         []int32

		// Of the leader only.
		low       int64 // the low watermark: everything below is gone from all in-sync replicas
		begin     int64 // the end of the log when this leadership began
		followers map[int32]*follower
		proposal  []int32 // an in-sync set that the controller has not answered yet
		proposing bool    // and it is being asked
	}
}

// follower is what the leader knows of a follower, from its fetches.
type follower struct {
	registered  int64     // the broker epoch under which the controller knows it
	brokerEpoch int64     // of its last fetch that counted
	start, end  int64     // of its log; end is -1 until it has fetched
	caughtUp    time.Time // when it last had all that the leader had
	lastFetch   time.Time
	lastEnd     int64 // the leader's at the last fetch
}

// progress is how far the ends moved for those who wait for them: producers wait
// for an offset, fetches for a position in bytes.
type progress struct {
	high, low                     int64
	highBytes, endBytes           int64
	endMoved, highMoved, lowMoved bool
}

// change is what a new picture did to a replica.
type change struct {
	progress
	moved bool // another leader, or the same one elected anew: what waits here waits in vain
	leads bool // and it is this broker
}

func (p *partition) apply(s *kmsg.UpdateMetadataRequestTopicPartition, epochs map[int32]int64, now time.Time) change {
	p.mu.Lock()
	defer p.mu.Unlock()
	var c change
	for id, f := range p.mu.followers {
		f.registerLocked(epochs[id])
	}
	if s.ZKVersion <= p.mu.epoch {
		return c
	}
	p.setInSyncLocked(s.ISR, s.ZKVersion)
	p.mu.replicas = len(s.Replicas)
	if s.LeaderEpoch > p.mu.leaderEpoch {
		p.mu.leader, p.mu.leaderEpoch = s.Leader, s.LeaderEpoch
		p.mu.followers = nil
		c.moved, c.leads = true, s.Leader == p.broker
		if c.leads {
			p.lead(s.Replicas, epochs, now)
		}
	}
	if p.mu.leader == p.broker {
		c.progress = p.advanceLocked()
	}
	return c
}

// lead begins a leadership. Nothing is known of the followers until they
// fetch, and until then nothing more is committed.
func (p *partition) lead(replicas []int32, epochs map[int32]int64, now time.Time) {
	p.mu.log.NoteEpoch(p.mu.leaderEpoch)
	p.mu.begin, p.mu.low = p.mu.log.End(), 0
	p.mu.followers = make(map[int32]*follower)
	for _, id := range replicas {
		if id != p.broker {
			p.mu.followers[id] = &follower{registered: epochs[id], brokerEpoch: -1, end: -1, caughtUp: now, lastFetch: now}
		}
	}
}

// registerLocked notes a follower's registration. What was known of it under another one
// may be what another process had.
func (f *follower) registerLocked(epoch int64) {
	if f.registered != epoch {
		f.registered, f.start, f.end = epoch, 0, -1
	}
}

// abdicate ends a leadership before the controller has said who leads next; false
// when there was none.
func (p *partition) abdicate() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	led := p.mu.leader == p.broker
	if led {
		p.mu.leader = -1
	}
	return led
}

// advanceLocked moves the high watermark to the least end of an in-sync log, and the
// low watermark to the least start. While a proposal is open either set may be the
// true one, so it takes both.
func (p *partition) advanceLocked() (pr progress) {
	high, low := p.mu.log.End(), p.mu.log.Start()
	for id, f := range p.mu.followers {
		if slices.Contains(p.mu.isr, id) || slices.Contains(p.mu.proposal, id) {
			high, low = min(high, f.end), min(low, f.start)
		}
	}
	if high > p.mu.high {
		p.mu.high = high
		pr.high, pr.highBytes, pr.highMoved = high, p.mu.log.Position(high), true
	}
	if low > p.mu.low {
		p.mu.low = low
		pr.low, pr.lowMoved = low, true
	}
	return pr
}

// append adds a producer's batch and returns where it begins, and the position
// that the high watermark has to reach under this leader epoch.
func (p *partition) append(records []byte, acks int16) (base, end int64, epoch int32, pr progress, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.mu.leader != p.broker:
		err = kerr.NotLeaderForPartition
	case len(records) > p.config.MaxBatchBytes:
		err = kerr.MessageTooLarge
	case acks == -1 && p.tooFewLocked():
		err = kerr.NotEnoughReplicas
	}
	if err != nil {
		return -1, 0, 0, pr, err
	}
	if err := p.reserveLocked(len(records)); err != nil {
		return -1, 0, 0, pr, err
	}
	defer p.settleLocked()
	before := p.mu.log.End()
	base, end, err = p.mu.log.Append(records, p.mu.leaderEpoch)
	if err != nil {
		return -1, 0, 0, pr, err
	}
	pr = p.advanceLocked() // alone in the in-sync set, a leader commits at once
	pr.endBytes, pr.endMoved = p.mu.log.Position(p.mu.log.End()), p.mu.log.End() > before
	p.retainLocked(p.config.RetentionBytes)
	return base, end, p.mu.leaderEpoch, pr, nil
}

// tooFewLocked says whether too few replicas are in sync for acks=all. More than
// there are of the partition nobody can ask for.
func (p *partition) tooFewLocked() bool {
	return len(p.mu.isr) < min(p.config.MinInsyncReplicas, p.mu.replicas)
}

// replicated says whether the wait for end is over, and with which error.
func (p *partition) replicated(epoch int32, end int64) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.mu.leader != p.broker || p.mu.leaderEpoch != epoch:
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
	case p.mu.leader != p.broker:
		return kerr.NotLeaderForPartition
	case currentEpoch >= 0 && currentEpoch < p.mu.leaderEpoch:
		return kerr.FencedLeaderEpoch
	case currentEpoch > p.mu.leaderEpoch:
		return kerr.UnknownLeaderEpoch
	}
	return nil
}
