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
