package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/delayedop/purgatory/examples/broker/wire"
)

// deleteRecords drops records up to an offset and waits until the in-sync replicas
// have dropped them too: their low watermark is told by their fetches.
func (b *Broker) deleteRecords(c *wire.Conn, req *kmsg.DeleteRecordsRequest, reply func(kmsg.Response)) {
	resp := req.ResponseKind().(*kmsg.DeleteRecordsResponse)
	var waiting []awaited
	for _, rt := range req.Topics {
		st := kmsg.NewDeleteRecordsResponseTopic()
		st.Topic = rt.Topic
		st.Partitions = make([]kmsg.DeleteRecordsResponseTopicPartition, len(rt.Partitions))
		for i, rp := range rt.Partitions {
			sp := &st.Partitions[i]
			sp.Partition, sp.LowWatermark = rp.Partition, -1
			wait, err := b.deleteFrom(rt.Topic, rp, sp)
			if err != nil {
				sp.ErrorCode = code(err)
			} else {
				waiting = append(waiting, wait)
			}
		}
		resp.Topics = append(resp.Topics, st)
	}
	b.acknowledge(b.deletes, c, waiting, b.patience(req.TimeoutMillis), func() { reply(resp) })
}

func (b *Broker) deleteFrom(topic string, rp kmsg.DeleteRecordsRequestTopicPartition, sp *kmsg.DeleteRecordsResponseTopicPartition) (awaited, error) {
	if topic == offsetsTopic {
		return awaited{}, kerr.InvalidTopicException
	}
	p, err := b.partition(topic, [16]byte{}, rp.Partition)
	if err != nil {
		return awaited{}, err
	}
	offset, epoch, pr, err := p.deleteTo(rp.Offset)
	if err != nil {
		return awaited{}, err
	}
	b.wake(p, pr)
	b.fetches.CheckAndComplete(at(appended, p, 0).Key) // followers learn it from the answer
	return awaited{
		partition: p,
		at:        at(deleted, p, offset),
		reached: func() (done bool, err error) {
			done, sp.LowWatermark, err = p.deletedTo(epoch, offset)
			return done, err
		},
		answer: func(err error) {
			if err != nil {
				sp.ErrorCode, sp.LowWatermark = code(err), -1
			}
		},
	}, nil
}

// deleteTo drops what is below an offset, -1 for all that is committed, and says
// which offset and under which leader epoch that was.
func (p *partition) deleteTo(offset int64) (to int64, epoch int32, pr progress, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.leaderLocked(-1); err != nil {
		return 0, 0, progress{}, err
	}
	if offset == -1 {
		offset = p.mu.high
	}
	if offset < 0 || offset > p.mu.high {
		return 0, 0, progress{}, kerr.OffsetOutOfRange
	}
	p.mu.log.DeleteTo(offset)
	p.settleLocked()
	return offset, p.mu.leaderEpoch, p.advanceLocked(), nil
}

// deletedTo says whether the wait for a low watermark is over, and with what.
func (p *partition) deletedTo(epoch int32, offset int64) (done bool, low int64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.leader != p.broker || p.mu.leaderEpoch != epoch {
		return true, -1, kerr.NotLeaderForPartition
	}
	return p.mu.low >= offset, p.mu.low, nil
}
