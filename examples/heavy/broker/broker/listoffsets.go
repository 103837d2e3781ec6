package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The times that are not times.
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

// listOffset finds an offset by time. It knows the times of batches, not of the
// records inside, and answers with the beginning of the batch, or of the log if that is
// inside it: never too late in the log, sometimes a few records too early.
func (p *partition) listOffset(req kmsg.ListOffsetsRequestTopicPartition, resp *kmsg.ListOffsetsResponseTopicPartition) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.leaderLocked(req.CurrentLeaderEpoch); err != nil {
		return err
	}
	resp.LeaderEpoch = p.mu.leaderEpoch
	switch {
	case req.Timestamp == earliest:
		resp.Offset = p.mu.log.Start()
	case req.Timestamp == latest:
		resp.Offset = p.mu.high
	case req.Timestamp < 0:
		return kerr.UnsupportedVersion
	default:
		if b := p.mu.log.AtTime(req.Timestamp); b != nil && b.End() <= p.mu.high {
			resp.Offset, resp.Timestamp, resp.LeaderEpoch = b.FirstOffset, b.FirstTimestamp, b.PartitionLeaderEpoch
		}
	}
	return nil
}
