package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/delayedop/purgatory/examples/broker/wire"
	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// waitKey is where a waiting produce or fetch is found again: under what it
// waits for, and under the connection whose end makes it pointless.
type waitKey struct {
	event     event
	partition topicPartition
	conn      uint64
}

type event uint8

const (
	connection event = iota // it ended
	committed               // the high watermark moved: producers and consumers wait
	appended                // the end of the log moved: followers wait
)

// String is what the debug page shows of a key.
func (k waitKey) String() string {
	if k.event == connection {
		return fmt.Sprintf("end of connection %d", k.conn)
	}
	return fmt.Sprintf("%s, %s", k.partition, [...]string{committed: "committed", appended: "appended"}[k.event])
}

type (
	waits = purgatory.DelayedOperationPurgatory[waitKey]
	// position is a key with the place in the log that is waited for.
	position = purgatory.At[waitKey]
)

func at(e event, p *partition, offset int64) position {
	return position{Key: waitKey{event: e, partition: p.topicPartition}, Position: offset}
}

func until(c *wire.Conn) position {
	return position{Key: waitKey{event: connection, conn: c.ID}}
}

// wake looks after those who wait for a position that was reached. It is
// called with no lock held.
func (b *Broker) wake(p *partition, pr progress) {
	if pr.endMoved {
		at := at(appended, p, pr.end)
		b.fetches.CheckAndCompleteUpTo(at.Key, at.Position)
	}
	if pr.highMoved {
		at := at(committed, p, pr.high)
		b.produces.CheckAndCompleteUpTo(at.Key, at.Position)
		b.fetches.CheckAndCompleteUpTo(at.Key, at.Position)
	}
}

// dismiss answers everybody who waits at a partition that has moved away.
func (b *Broker) dismiss(p *partition) {
	for _, e := range []event{committed, appended} {
		key := at(e, p, 0).Key
		b.produces.CancelForKey(key, kerr.NotLeaderForPartition)
		b.fetches.CancelForKey(key, kerr.NotLeaderForPartition)
	}
}

// replication waits until a batch is on all in-sync replicas.
type replication struct {
	operation.DelayedOperation
	partition *partition
	epoch     int32
	end       int64
	failed    error
	answer    func(error)
}

func (r *replication) TryComplete() bool {
	done, err := r.partition.replicated(r.epoch, r.end)
	r.failed = err
	return done
}

func (r *replication) OnComplete() {
	switch r.Outcome() {
	case operation.Satisfied:
		r.answer(r.failed)
	case operation.Expired:
		r.answer(kerr.RequestTimedOut)
	default: // the leader steps down, the broker closes, the client is gone
		r.answer(kerr.NotLeaderForPartition)
	}
}

func (r *replication) OnExpiration() {}

// String is what the debug page shows of a produce that waits.
func (r *replication) String() string {
	return fmt.Sprintf("%s-%d up to offset %d", r.partition.name, r.partition.n, r.end)
}

// awaitReplication calls answer once, when the batch that ends at end is on all
// in-sync replicas or will not be.
func (b *Broker) awaitReplication(r *replication, timeout time.Duration, also ...position) {
	keys := append(also, at(committed, r.partition, r.end))
	if _, err := b.produces.TryCompleteElseWatchAt(r, timeout, keys...); err != nil {
		r.answer(kerr.NotLeaderForPartition) // closed: never accepted, so never completed
	}
}

// What is waited for in arrivals, beside topics by name: the picture of the
// cluster as a whole, and nothing at all.
const (
	anyPicture = "(picture)"
	nothing    = "(pause)"
)

// pause waits for d, under a key that nobody checks. It returns false when ctx or the broker ended the pause.
func (b *Broker) pause(ctx context.Context, d time.Duration) bool {
	err := b.arrivals.Await(ctx, d, func() bool { return false }, nothing)
	return errors.Is(err, purgatory.ErrExpired)
}
