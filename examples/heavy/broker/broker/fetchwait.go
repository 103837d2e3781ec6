package broker

import (
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/delayedop/purgatory/examples/heavy/broker/wire"
	"github.com/delayedop/purgatory/operation"
)

// fetchWait is a fetch that waits until there is enough for it, or something that will
// not get better by waiting.
type fetchWait struct {
	operation.DelayedOperation
	broker *Broker
	conn   *wire.Conn
	req    *kmsg.FetchRequest
	parts  []fetchPart
	reply  func(kmsg.Response)
}

// await answers a fetch when there is enough for it. It waits at a position in bytes: of
// a single partition, where there is enough; of each of several, where there is more
// than now. A follower waits for what is appended, a consumer for what is committed.
func (b *Broker) await(f *fetchWait, timeout time.Duration) {
	keys, kind := []position{goneKey(f.conn)}, committed
	if f.follower() {
		kind = appended
	}
	if timeout == 0 || slices.ContainsFunc(f.parts, func(p fetchPart) bool { return p.partition == nil }) {
		f.answer()
		return
	}
	for _, part := range f.parts {
		v := part.partition.view(part.FetchRequestTopicPartition, f.follower())
		until := v.visible + 1
		if len(f.parts) == 1 {
			until = max(until, v.position+int64(f.enough()))
		}
		keys = append(keys, at(kind, part.partition, until))
	}
	if _, err := b.fetches.TryCompleteElseWatchAt(f, timeout, keys...); err != nil {
		f.answer() // closed: never accepted, so never completed
	}
}

// enough is how many bytes end the wait.
func (f *fetchWait) enough() int { return min(int(f.req.MinBytes), f.maxBytes()) }

// TryComplete says whether there is enough, or a partition has become one that it is no
// use to wait for. Of no partitions there will never be more.
func (f *fetchWait) TryComplete() bool {
	bytes := 0
	for _, part := range f.parts {
		v := part.partition.view(part.FetchRequestTopicPartition, f.follower())
		if v.err != nil {
			return true
		}
		bytes += min(int(max(0, v.visible-v.position)), f.limit(part, bytes))
	}
	return bytes >= f.enough() || len(f.parts) == 0 || !f.conn.Open()
}

// OnComplete answers with what there is, however the wait ended. A partition that has
// moved away says so itself.
func (f *fetchWait) OnComplete() { f.answer() }

// OnExpiration does nothing: OnComplete has answered.
func (f *fetchWait) OnExpiration() {}

// String is what the debug page shows of a fetch that waits.
func (f *fetchWait) String() string {
	who, first := "a consumer", f.parts[0]
	if f.follower() {
		who = fmt.Sprintf("broker %d", f.req.ReplicaID)
	}
	return fmt.Sprintf("%s from %v offset %d and %d more", who, first.partition.topicPartition, first.FetchOffset, len(f.parts)-1)
}

// fetch answers consumers and followers alike: at once when there is enough,
// else when enough has come, or after the client's patience with what there is.
func (b *Broker) fetch(c *wire.Conn, req *kmsg.FetchRequest, reply func(kmsg.Response)) {
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
