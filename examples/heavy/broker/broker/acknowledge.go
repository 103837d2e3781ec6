package broker

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/delayedop/purgatory/examples/heavy/broker/wire"
	"github.com/delayedop/purgatory/operation"
)

// appendedBatch is one partition that a produce waits for: until everything below
// end, appended under a leader epoch, is on all in-sync replicas.
type appendedBatch struct {
	*partition
	epoch int32
	end   int64
	resp  *kmsg.ProduceResponseTopicPartition
}

func (a appendedBatch) fail(err error) { a.resp.ErrorCode, a.resp.BaseOffset = code(err), -1 }

// acknowledgement is a produce with acks=all that waits for all of its partitions. It
// is one operation under the key of each, at the position where its batch ends. A
// partition that moves away is answered for by itself, and the rest is waited for.
type acknowledgement struct {
	operation.DelayedOperation
	waiting []appendedBatch // those that are not answered yet
	reply   func()
}

// TryComplete crosses off the partitions that are done with.
func (a *acknowledgement) TryComplete() bool {
	a.waiting = slices.DeleteFunc(a.waiting, func(w appendedBatch) bool {
		done, err := w.replicated(w.epoch, w.end)
		if err != nil {
			w.fail(err)
		}
		return done
	})
	return len(a.waiting) == 0
}

// OnComplete answers for the partitions that are left, and replies.
func (a *acknowledgement) OnComplete() {
	err := error(kerr.NotLeaderForPartition) // the broker closes, or the client has gone
	if a.Outcome() == operation.Expired {
		err = kerr.RequestTimedOut
	}
	a.fail(err)
}

func (a *acknowledgement) fail(err error) {
	for _, w := range a.waiting {
		w.fail(err)
	}
	a.reply()
}

// OnExpiration does nothing: OnComplete has answered.
func (a *acknowledgement) OnExpiration() {}

// String is what the debug page shows of a request that waits.
func (a *acknowledgement) String() string {
	var s []string
	for _, w := range a.waiting {
		s = append(s, fmt.Sprintf("%v up to offset %d", w.topicPartition, w.end))
	}
	return strings.Join(s, ", ")
}

// acknowledge calls reply once, when every partition is answered for.
func (b *Broker) acknowledge(c *wire.Conn, waiting []appendedBatch, timeout time.Duration, reply func()) {
	keys := []position{goneKey(c)}
	for _, w := range waiting {
		keys = append(keys, at(committed, w.partition, w.end))
	}
	a := &acknowledgement{waiting: waiting, reply: reply}
	if _, err := b.produces.TryCompleteElseWatchAt(a, timeout, keys...); err != nil {
		a.fail(kerr.NotLeaderForPartition) // closed: never accepted, so never completed
	}
}

// produce appends and answers: not at all for acks=0, when the leader has it
// for acks=1, when all in-sync replicas have it for acks=-1.
func (b *Broker) produce(c *wire.Conn, req *kmsg.ProduceRequest, reply func(kmsg.Response)) {
	resp := req.ResponseKind().(*kmsg.ProduceResponse)
	failed := false
	var waiting []appendedBatch
	for _, rt := range req.Topics {
		st := kmsg.NewProduceResponseTopic()
		st.Topic, st.Partitions = rt.Topic, make([]kmsg.ProduceResponseTopicPartition, len(rt.Partitions))
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
	base, a, pr, err := p.append(rp.Records, req.Acks)
	b.wake(p, pr)
	sp.BaseOffset, a.resp = base, sp
	return a, err
}
