package broker

import (
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/delayedop/purgatory/examples/broker/wire"
)

// produce appends and answers: not at all for acks=0, when the leader has it
// for acks=1, when all in-sync replicas have it for acks=-1.
func (b *Broker) produce(c *wire.Conn, req *kmsg.ProduceRequest, reply func(kmsg.Response)) {
	resp := req.ResponseKind().(*kmsg.ProduceResponse)
	failed := false
	var waits []*replication
	for _, rt := range req.Topics {
		st := kmsg.NewProduceResponseTopic()
		st.Topic = rt.Topic
		st.Partitions = make([]kmsg.ProduceResponseTopicPartition, len(rt.Partitions))
		for i, rp := range rt.Partitions {
			sp := &st.Partitions[i]
			sp.Default()
			sp.Partition = rp.Partition
			wait, err := b.appendFrom(req, rt.Topic, rp, sp)
			if failed = failed || err != nil; err != nil {
				sp.ErrorCode = code(err)
			} else if req.Acks == -1 {
				waits = append(waits, wait)
			}
		}
		resp.Topics = append(resp.Topics, st)
	}
	switch {
	case req.Acks == 0 && failed:
		c.Close() // the only way to tell a producer that wants no answers
	case req.Acks == 0:
		reply(nil)
	case len(waits) == 0:
		reply(resp)
	default:
		b.awaitAll(c, waits, req.TimeoutMillis, func() { reply(resp) })
	}
}

// awaitAll waits for each partition by itself: one that moves away is answered
// for by itself, and each waits for one place in one log. The last one replies.
func (b *Broker) awaitAll(c *wire.Conn, waits []*replication, millis int32, done func()) {
	var left atomic.Int32
	left.Store(int32(len(waits)))
	for _, r := range waits {
		answer := r.answer
		r.answer = func(err error) {
			answer(err)
			if left.Add(-1) == 0 {
				done()
			}
		}
	}
	for _, r := range waits {
		b.awaitReplication(r, time.Duration(max(0, millis))*time.Millisecond, until(c))
	}
}

// appendFrom appends one partition's batch and returns the wait that acks=-1
// still has before it.
func (b *Broker) appendFrom(req *kmsg.ProduceRequest, topic string, rp kmsg.ProduceRequestTopicPartition, sp *kmsg.ProduceResponseTopicPartition) (*replication, error) {
	sp.BaseOffset = -1
	switch {
	case req.Acks < -1 || req.Acks > 1:
		return nil, kerr.InvalidRequiredAcks
	case topic == offsetsTopic:
		return nil, kerr.InvalidTopicException // what is in it, the coordinators believe
	case req.Version < 3:
		return nil, kerr.UnsupportedForMessageFormat // the request is understood, its message sets are not
	}
	p, err := b.partition(topic, [16]byte{}, rp.Partition)
	if err != nil {
		return nil, err
	}
	base, end, epoch, pr, err := p.append(rp.Records, req.Acks)
	if err != nil {
		return nil, err
	}
	b.wake(p, pr)
	sp.BaseOffset = base
	return &replication{partition: p, epoch: epoch, end: end, answer: func(err error) {
		if err != nil {
			sp.ErrorCode, sp.BaseOffset = code(err), -1
		}
	}}, nil
}
