package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// view is what one fetch sees of a partition.
type view struct {
	err               error
	below             int64 // the offset where the sight of this client ends
	position, visible int64 // where a read begins, and where sight ends, in bytes
	divergingEpoch    int32
	divergingEnd      int64 // where the client's log left the leader's; -1: it has not
}

func (v view) diverging() bool { return v.divergingEnd >= 0 }

// final says that waiting makes it no better.
func (v view) final() bool { return v.err != nil || v.diverging() }

func (p *partition) view(req *kmsg.FetchRequestTopicPartition, follower bool) view {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.viewLocked(req, follower)
}

func (p *partition) viewLocked(req *kmsg.FetchRequestTopicPartition, follower bool) view {
	log := p.mu.log
	v := view{below: p.mu.high, divergingEnd: -1}
	if follower {
		v.below = log.End()
	}
	if v.err = p.leaderLocked(req.CurrentLeaderEpoch); v.err != nil {
		return v
	}
	if req.LastFetchedEpoch >= 0 {
		epoch, end := log.EpochEnd(req.LastFetchedEpoch)
		switch {
		case end < 0:
			v.err = kerr.OffsetOutOfRange
			return v
		case epoch < req.LastFetchedEpoch || end < req.FetchOffset:
			v.divergingEpoch, v.divergingEnd = epoch, end
			return v
		}
	}
	// Above the high watermark a consumer waits, also when a new leader does
	// not know yet how high it already was.
	if req.FetchOffset < log.Start() || req.FetchOffset > log.End() {
		v.err = kerr.OffsetOutOfRange
		return v
	}
	v.position, v.visible = log.Position(req.FetchOffset), log.Position(v.below)
	return v
}
