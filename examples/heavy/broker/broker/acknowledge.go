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
