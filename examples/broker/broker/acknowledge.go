package broker

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/delayedop/purgatory/examples/broker/wire"
	"github.com/delayedop/purgatory/operation"
)

// awaited is one partition that a request waits for: until its replicas have come
// to a place in the log.
type awaited struct {
	*partition
	at      position
	reached func() (done bool, err error)
	answer  func(error)
}

// acknowledgement is one request that waits for all of its partitions: a produce
// with acks=all, an offset commit, a DeleteRecords. It is one operation under the
// key of each. One that moves away is answered for by itself, and the rest is waited
// for.
type acknowledgement struct {
	operation.DelayedOperation
	waiting []awaited // those that are not answered yet
	reply   func()
}

// TryComplete crosses off the partitions that are done with.
func (a *acknowledgement) TryComplete() bool {
	a.waiting = slices.DeleteFunc(a.waiting, func(w awaited) bool {
		done, err := w.reached()
		if done {
			w.answer(err)
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
		w.answer(err)
	}
	a.reply()
}

func (a *acknowledgement) OnExpiration() {}

// String is what the debug page shows of a request that waits.
func (a *acknowledgement) String() string {
	var s []string
	for _, w := range a.waiting {
		s = append(s, fmt.Sprintf("%s-%d up to offset %d", w.name, w.n, w.at.Position))
	}
	return strings.Join(s, ", ")
}

// acknowledge calls reply once, when every partition is answered for.
func (b *Broker) acknowledge(in *waits, c *wire.Conn, waiting []awaited, timeout time.Duration, reply func()) {
	keys := []position{goneKey(c)}
	for _, w := range waiting {
		keys = append(keys, w.at)
	}
	a := &acknowledgement{waiting: waiting, reply: reply}
	if _, err := in.TryCompleteElseWatchAt(a, timeout, keys...); err != nil {
		a.fail(kerr.NotLeaderForPartition) // closed: never accepted, so never completed
	}
}

// replication waits until everything below end, appended under a leader epoch, is
// on all in-sync replicas.
func replication(p *partition, epoch int32, end int64, answer func(error)) awaited {
	return awaited{
		partition: p,
		at:        at(committed, p, end),
		reached:   func() (bool, error) { return p.replicated(epoch, end) },
		answer:    answer,
	}
}
