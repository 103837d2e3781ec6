package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The times that are not times. Others are refused: no index of times is kept.
const (
	latest   = -1
	earliest = -2
)

func (b *Broker) listOffsets(req *kmsg.ListOffsetsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
	for _, rt := range req.Topics {
		st := kmsg.NewListOffsetsResponseTopic()
		st.Topic = rt.Topic
		for _, rp := range rt.Partitions {
			sp := kmsg.NewListOffsetsResponseTopicPartition()
			sp.Partition = rp.Partition
			p, err := b.partition(rt.Topic, rp.Partition)
			if err == nil {
				err = p.listOffset(rp, &sp)
			}
			sp.ErrorCode = code(err)
			st.Partitions = append(st.Partitions, sp)
		}
		resp.Topics = append(resp.Topics, st)
	}
	return resp
}

func (p *partition) listOffset(req kmsg.ListOffsetsRequestTopicPartition, resp *kmsg.ListOffsetsResponseTopicPartition) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	resp.LeaderEpoch = p.mu.leaderEpoch
	switch req.Timestamp {
	case earliest:
		resp.Offset = p.mu.log.Start()
	case latest:
		resp.Offset = p.mu.high
	default:
		return kerr.UnsupportedForMessageFormat
	}
	return p.leaderLocked(req.CurrentLeaderEpoch)
}
