package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/delayedop/purgatory/examples/broker/wire"
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
	deleted                 // the low watermark moved: DeleteRecords wait
)

// String is what the debug page shows of a key.
func (k waitKey) String() string {
	if k.event == connection {
		return fmt.Sprintf("end of connection %d", k.conn)
	}
	return fmt.Sprintf("%s, %s", k.partition, [...]string{committed: "committed", appended: "appended", deleted: "deleted"}[k.event])
}

type (
	waits = purgatory.DelayedOperationPurgatory[waitKey]
	// position is a key with the place in the log that is waited for: an offset in
	// produces, a number of bytes in fetches.
	position = purgatory.KeyPosition[waitKey]
)

func at(e event, p *partition, offset int64) position {
	return position{Key: waitKey{event: e, partition: p.topicPartition}, Position: offset}
}

// goneKey is where whoever waits for a client is found when that has gone.
func goneKey(c *wire.Conn) position {
	return position{Key: waitKey{event: connection, conn: c.ID}}
}

// patience is how long a request may wait: as long as its client says, up to
// the maximum that the broker is configured with.
func (b *Broker) patience(millis int32) time.Duration {
	return min(time.Duration(max(0, millis))*time.Millisecond, b.config.MaxWait)
}

// wake looks after those who wait for a position that was reached. It is
// called with no lock held.
func (b *Broker) wake(p *partition, pr progress) {
	if pr.endMoved {
		b.fetches.CheckAndCompleteUpTo(at(appended, p, 0).Key, pr.endBytes)
	}
	if pr.highMoved {
		key := at(committed, p, 0).Key
		b.produces.CheckAndCompleteUpTo(key, pr.high)
		b.fetches.CheckAndCompleteUpTo(key, pr.highBytes)
	}
	if pr.lowMoved {
		b.deletes.CheckAndCompleteUpTo(at(deleted, p, 0).Key, pr.low)
	}
}

// dismiss answers everybody who waits at a partition that has moved away: fetches as
// a whole, and what waits to be acknowledged for this partition.
func (b *Broker) dismiss(p *partition) {
	b.fetches.CancelForKey(at(committed, p, 0).Key, kerr.NotLeaderForPartition)
	b.fetches.CancelForKey(at(appended, p, 0).Key, kerr.NotLeaderForPartition)
	b.produces.CheckAndComplete(at(committed, p, 0).Key)
	b.deletes.CheckAndComplete(at(deleted, p, 0).Key)
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
