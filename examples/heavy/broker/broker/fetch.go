package broker

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/delayedop/purgatory/examples/heavy/broker/wire"
)

// fetch answers consumers and followers alike: at once when there is enough,
// else when enough has come, or after the client's patience with what there is.
func (b *Broker) fetch(c *wire.Conn, req *kmsg.FetchRequest, reply func(kmsg.Response)) {
	if req.SessionID != 0 { // no session is ever given out
		resp := req.ResponseKind().(*kmsg.FetchResponse)
		resp.ErrorCode = kerr.FetchSessionIDNotFound.Code
		reply(resp)
		return
	}
	f := &fetchWait{broker: b, conn: c, req: req, reply: reply}
	for _, rt := range req.Topics {
		for i := range rt.Partitions {
			part := fetchPart{FetchRequestTopicPartition: &rt.Partitions[i]}
			part.partition, part.failed = b.partition(rt.Topic, part.Partition)
			if part.partition != nil && f.follower() {
				b.wake(part.partition, part.partition.fetched(req.ReplicaID, part.FetchRequestTopicPartition, time.Now()))
			}
			f.parts = append(f.parts, part)
		}
	}
	b.await(f, b.patience(req.MaxWaitMillis))
}

type fetchPart struct {
	*kmsg.FetchRequestTopicPartition
	partition *partition // nil: there is none here
	failed    error      // and this is why
}

// follower says whether a replica asks; a consumer's replica is -1.
func (f *fetchWait) follower() bool { return f.req.ReplicaID >= 0 }

func (f *fetchWait) maxBytes() int { return min(int(f.req.MaxBytes), f.broker.config.MaxFetchBytes) }

// limit is how much of a partition still fits into the response.
func (f *fetchWait) limit(part fetchPart, used int) int {
	return max(0, min(int(part.PartitionMaxBytes), f.maxBytes()-used))
}

// answer replies with what there is when the reply is written.
func (f *fetchWait) answer() {
	f.reply(wire.Late{Make: func() kmsg.Response {
		resp := f.req.ResponseKind().(*kmsg.FetchResponse)
		bytes, next := 0, 0
		for _, rt := range f.req.Topics {
			st := kmsg.NewFetchResponseTopic()
			st.Topic = rt.Topic
			for range rt.Partitions {
				part := f.parts[next]
				sp := part.read(f.follower(), f.limit(part, bytes), bytes == 0)
				bytes += len(sp.RecordBatches)
				st.Partitions = append(st.Partitions, sp)
				next++
			}
			resp.Topics = append(resp.Topics, st)
		}
		return resp
	}})
}

// read copies records into the response. The first batch of a response goes out
// whatever its size, or a client with a small limit would never get past it.
func (part fetchPart) read(follower bool, limit int, first bool) kmsg.FetchResponseTopicPartition {
	sp := kmsg.NewFetchResponseTopicPartition()
	sp.Partition, sp.RecordBatches = part.Partition, []byte{}
	p := part.partition
	if p == nil {
		sp.ErrorCode, sp.HighWatermark = code(part.failed), -1
		return sp
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	v := p.viewLocked(part.FetchRequestTopicPartition, follower)
	sp.ErrorCode = code(v.err)
	sp.HighWatermark, sp.LastStableOffset, sp.LogStartOffset = p.mu.high, p.mu.high, p.mu.log.Start()
	if v.err == nil {
		sp.RecordBatches = p.mu.log.Read(part.FetchOffset, v.below, limit, first)
	}
	return sp
}
