package broker

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/delayedop/purgatory/examples/broker/wire"
	"github.com/delayedop/purgatory/operation"
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
	f := &fetching{broker: b, req: req, reply: reply, replica: req.ReplicaID}
	if req.Version >= 15 {
		f.replica = req.ReplicaState.ID
	}
	keys := []position{until(c)}
	for _, rt := range req.Topics {
		for i := range rt.Partitions {
			part := fetchPart{FetchRequestTopicPartition: &rt.Partitions[i]}
			part.partition, part.failed = b.partition(rt.Topic, rt.TopicID, part.Partition)
			if part.partition != nil {
				keys = append(keys, f.await(part))
			}
			f.parts = append(f.parts, part)
		}
	}
	patience := time.Duration(max(0, req.MaxWaitMillis)) * time.Millisecond
	if patience == 0 {
		f.answer(false)
		return
	}
	if _, err := b.fetches.TryCompleteElseWatchAt(f, patience, keys...); err != nil {
		f.answer(true) // closed: never accepted, so never completed
	}
}

// fetching is a fetch that waits for bytes.
type fetching struct {
	operation.DelayedOperation
	broker  *Broker
	req     *kmsg.FetchRequest
	parts   []fetchPart
	replica int32 // who asks; -1 is a consumer
	reply   func(kmsg.Response)
}

type fetchPart struct {
	*kmsg.FetchRequestTopicPartition
	partition *partition // nil: there is none here
	failed    error      // and this is why
}

func (f *fetching) follower() bool { return f.replica >= 0 }

// await takes a follower's progress from its fetch, once, and says what the
// fetch waits for next: a record at its offset that it may see.
func (f *fetching) await(part fetchPart) position {
	p := part.partition
	if !f.follower() {
		return at(committed, p, part.FetchOffset+1)
	}
	pr := p.fetched(f.replica, f.req.ReplicaState.Epoch, part.FetchRequestTopicPartition, time.Now())
	f.broker.wake(p, pr)
	f.broker.proposeInSync(p)
	return at(appended, p, part.FetchOffset+1)
}

// TryComplete says whether there is enough, or anything that will not get
// better by waiting.
func (f *fetching) TryComplete() bool {
	bytes := 0
	for _, part := range f.parts {
		if part.partition == nil {
			return true
		}
		v := part.partition.view(part.FetchRequestTopicPartition, f.follower(), f.limit(part, bytes))
		if v.err != nil || v.diverging() {
			return true
		}
		bytes += v.size
	}
	return bytes >= min(int(f.req.MinBytes), f.maxBytes())
}

func (f *fetching) maxBytes() int { return min(int(f.req.MaxBytes), f.broker.config.MaxFetchBytes) }

// limit is how much of a partition still fits into the response.
func (f *fetching) limit(part fetchPart, used int) int {
	return max(0, min(int(part.PartitionMaxBytes), f.maxBytes()-used))
}

// OnComplete answers with what there is, however the wait ended. That it has
// moved a partition says itself; that the broker closes it cannot know.
func (f *fetching) OnComplete() { f.answer(f.Outcome() == operation.Closed) }

func (f *fetching) answer(closed bool) {
	resp := f.req.ResponseKind().(*kmsg.FetchResponse)
	bytes, next := 0, 0
	for _, rt := range f.req.Topics {
		st := kmsg.NewFetchResponseTopic()
		st.Topic, st.TopicID = rt.Topic, rt.TopicID
		for range rt.Partitions {
			part := f.parts[next]
			if closed {
				part.partition, part.failed = nil, kerr.NotLeaderForPartition
			}
			sp := f.part(part, f.limit(part, bytes), bytes == 0)
			bytes += len(sp.RecordBatches)
			st.Partitions = append(st.Partitions, sp)
			next++
		}
		resp.Topics = append(resp.Topics, st)
	}
	f.reply(resp)
}

func (f *fetching) OnExpiration() {}

// String is what the debug page shows of a fetch that waits: who, and the
// first partitions with their offsets.
func (f *fetching) String() string {
	const few = 3
	var s strings.Builder
	if f.follower() {
		fmt.Fprintf(&s, "broker %d from", f.replica)
	} else {
		s.WriteString("consumer from")
	}
	for _, part := range f.parts[:min(few, len(f.parts))] {
		if part.partition != nil {
			fmt.Fprintf(&s, " %s-%d/%d", part.partition.name, part.Partition, part.FetchOffset)
		}
	}
	if more := len(f.parts) - few; more > 0 {
		fmt.Fprintf(&s, " and %d more", more)
	}
	return s.String()
}

func (f *fetching) part(part fetchPart, limit int, first bool) kmsg.FetchResponseTopicPartition {
	sp := kmsg.NewFetchResponseTopicPartition()
	sp.Partition = part.Partition
	sp.RecordBatches = []byte{}
	if part.partition == nil {
		sp.ErrorCode, sp.HighWatermark = code(part.failed), -1
		return sp
	}
	v := part.partition.view(part.FetchRequestTopicPartition, f.follower(), limit)
	sp.ErrorCode = code(v.err)
	sp.HighWatermark, sp.LastStableOffset, sp.LogStartOffset = v.high, v.high, v.start
	switch {
	case errors.Is(v.err, kerr.NotLeaderForPartition), errors.Is(v.err, kerr.FencedLeaderEpoch):
		sp.CurrentLeader.LeaderID, sp.CurrentLeader.LeaderEpoch = v.leader, v.leaderEpoch
	case v.diverging():
		sp.DivergingEpoch.Epoch, sp.DivergingEpoch.EndOffset = v.divergingEpoch, v.divergingEnd
	case v.err == nil:
		// The first batch of a response goes out whatever its size, or a
		// client with a small limit would never get past it.
		sp.RecordBatches = part.partition.read(part.FetchOffset, v.below, limit, first)
	}
	return sp
}
