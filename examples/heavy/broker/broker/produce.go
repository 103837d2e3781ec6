package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/delayedop/purgatory/examples/heavy/broker/wire"
)

// produce appends and answers: not at all for acks=0, when the leader has it
// for acks=1, when all in-sync replicas have it for acks=-1.
func (b *Broker) produce(c *wire.Conn, req *kmsg.ProduceRequest, reply func(kmsg.Response)) {
	resp := req.ResponseKind().(*kmsg.ProduceResponse)
	failed := false
	var waiting []appendedBatch
	for _, rt := range req.Topics {
		st := kmsg.NewProduceResponseTopic()
		st.Topic = rt.Topic
		st.Partitions = make([]kmsg.ProduceResponseTopicPartition, len(rt.Partitions))
		for i, rp := range rt.Partitions {
			sp := &st.Partitions[i]
			sp.Default()
			sp.Partition = rp.Partition
			wait, err := b.appendFrom(req, rt.Topic, rp, sp)
			if err != nil {
				failed = true
				sp.ErrorCode, sp.BaseOffset = code(err), -1
			} else if req.Acks == -1 {
				waiting = append(waiting, wait)
			}
		}
		resp.Topics = append(resp.Topics, st)
	}
	switch {
	case req.Acks == 0 && failed:
		c.Close() // the only way to tell a producer that wants no answers
		reply(nil)
	case req.Acks == 0:
		reply(nil)
	case len(waiting) == 0:
		reply(resp)
	default:
		b.acknowledge(c, waiting, b.patience(req.TimeoutMillis), func() { reply(resp) })
	}
}

// appendFrom appends one partition's batch and returns the wait that acks=-1
// still has before it.
func (b *Broker) appendFrom(req *kmsg.ProduceRequest, topic string, rp kmsg.ProduceRequestTopicPartition, sp *kmsg.ProduceResponseTopicPartition) (appendedBatch, error) {
	switch {
	case req.Acks < -1 || req.Acks > 1:
		return appendedBatch{}, kerr.InvalidRequiredAcks
	case req.Version < 3:
		return appendedBatch{}, kerr.UnsupportedForMessageFormat // the request is understood, its message sets are not
	}
	p, err := b.partition(topic, rp.Partition)
	if err != nil {
		return appendedBatch{}, err
	}
	base, end, epoch, pr, err := p.append(rp.Records, req.Acks)
	if err != nil {
		return appendedBatch{}, err
	}
	b.wake(p, pr)
	sp.BaseOffset = base
	return appendedBatch{partition: p, epoch: epoch, end: end, resp: sp}, nil
}
