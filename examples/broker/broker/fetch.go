package broker

import (
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/delayedop/purgatory/examples/broker/wire"
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
	f := &fetching{broker: b, conn: c, req: req, reply: reply, replica: req.ReplicaID}
	if req.Version >= 15 {
		f.replica = req.ReplicaState.ID
	}
	for _, rt := range req.Topics {
		for i := range rt.Partitions {
			part := fetchPart{FetchRequestTopicPartition: &rt.Partitions[i]}
			part.partition, part.failed = b.partition(rt.Topic, rt.TopicID, part.Partition)
			if part.partition != nil && f.follower() {
				f.note(part)
			}
			f.parts = append(f.parts, part)
		}
	}
	if patience := b.patience(req.MaxWaitMillis); patience > 0 {
		f.deadline = time.Now().Add(patience)
	}
	f.wait()
}

// fetching is a fetch that is not answered yet.
type fetching struct {
	broker   *Broker
	conn     *wire.Conn
	req      *kmsg.FetchRequest
	parts    []fetchPart
	replica  int32     // who asks; -1 is a consumer
	deadline time.Time // zero: it does not wait
	starved  bool      // there was no memory for the answer
	reply    func(kmsg.Response)
}

type fetchPart struct {
	*kmsg.FetchRequestTopicPartition
	partition *partition // nil: there is none here
	failed    error      // and this is why
}

func (f *fetching) follower() bool { return f.replica >= 0 }

// at is where a fetch waits for a position: a follower for what is appended, a
// consumer for what is committed.
func (f *fetching) at(part fetchPart, bytes int64) position {
	if f.follower() {
		return at(appended, part.partition, bytes)
	}
	return at(committed, part.partition, bytes)
}

// note takes a follower's progress from its fetch, once.
func (f *fetching) note(part fetchPart) {
	p := part.partition
	f.broker.wake(p, p.fetched(f.replica, f.req.ReplicaState.Epoch, part.FetchRequestTopicPartition, time.Now()))
	f.broker.proposeInSync(p)
}

func (f *fetching) maxBytes() int { return min(int(f.req.MaxBytes), f.broker.config.MaxFetchBytes) }

// limit is how much of a partition still fits into the response.
func (f *fetching) limit(part fetchPart, used int) int {
	return max(0, min(int(part.PartitionMaxBytes), f.maxBytes()-used))
}

// answer replies with what there is now; closed: with nothing, for the broker ends.
func (f *fetching) answer(closed bool) {
	if !f.conn.Open() {
		f.reply(nil) // nobody reads it
		return
	}
	resp := f.req.ResponseKind().(*kmsg.FetchResponse)
	bytes, next, held := 0, 0, 0
	for _, rt := range f.req.Topics {
		st := kmsg.NewFetchResponseTopic()
		st.Topic, st.TopicID = rt.Topic, rt.TopicID
		for range rt.Partitions {
			part := f.parts[next]
			if closed {
				part.partition, part.failed = nil, kerr.NotLeaderForPartition
			}
			sp, taken := f.part(part, f.limit(part, bytes), bytes == 0)
			bytes += len(sp.RecordBatches)
			held += taken
			st.Partitions = append(st.Partitions, sp)
			next++
		}
		resp.Topics = append(resp.Topics, st)
	}
	if held == 0 && bytes == 0 && f.starved {
		resp.ThrottleMillis = int32(throttle.Milliseconds())
	}
	f.reply(wire.Held{Response: resp, Free: func() { f.broker.memory.requests.Free(held) }})
}

// throttle is how long a client is asked to wait that got nothing for want of memory.
const throttle = 100 * time.Millisecond

// read copies records into the response, as many as there is memory for, and says
// how much it took.
func (f *fetching) read(part fetchPart, v view, limit int, first bool) (records []byte, taken int) {
	if v.visible <= v.position {
		return []byte{}, 0
	}
	requests := f.broker.memory.requests
	taken = requests.TakeUpTo(int(min(v.visible-v.position, int64(limit))))
	if limit > 0 && taken == 0 {
		f.starved = true
		return []byte{}, 0
	}
	// The first batch of a response goes out whatever its size, or a client with a
	// small limit would never get past it.
	records = part.partition.read(part.FetchOffset, v.below, taken, first)
	requests.Force(max(0, len(records)-taken))
	requests.Free(max(0, taken-len(records)))
	return records, len(records)
}

func (f *fetching) part(part fetchPart, limit int, first bool) (sp kmsg.FetchResponseTopicPartition, taken int) {
	sp = kmsg.NewFetchResponseTopicPartition()
	sp.Partition = part.Partition
	sp.RecordBatches = []byte{}
	if part.partition == nil {
		sp.ErrorCode, sp.HighWatermark = code(part.failed), -1
		return sp, 0
	}
	v := part.partition.view(part.FetchRequestTopicPartition, f.follower())
	sp.ErrorCode = code(v.err)
	sp.HighWatermark, sp.LastStableOffset, sp.LogStartOffset = v.high, v.high, v.start
	switch {
	case errors.Is(v.err, kerr.NotLeaderForPartition), errors.Is(v.err, kerr.FencedLeaderEpoch):
		sp.CurrentLeader.LeaderID, sp.CurrentLeader.LeaderEpoch = v.leader, v.leaderEpoch
	case v.diverging():
		sp.DivergingEpoch.Epoch, sp.DivergingEpoch.EndOffset = v.divergingEpoch, v.divergingEnd
	case v.err == nil:
		sp.RecordBatches, taken = f.read(part, v, limit, first)
	}
	return sp, taken
}
