package broker

import (
	"fmt"
	"time"

	"github.com/delayedop/purgatory/examples/heavy/broker/wire"
	"github.com/delayedop/purgatory/purgatory"
)

// waitKey is where a waiting request is found again: under what it waits for, and
// under the connection whose end makes it pointless.
type waitKey struct {
	event     event
	partition topicPartition
	conn      uint64
}

type event string

const (
	connection event = "end of connection"
	committed  event = "committed" // the high watermark moved: producers and consumers wait
	appended   event = "appended"  // the end of the log moved: followers wait
)

// String is what the debug page shows of a key.
func (k waitKey) String() string {
	if k.event == connection {
		return fmt.Sprintf("%s %d", k.event, k.conn)
	}
	return fmt.Sprintf("%v, %s", k.partition, k.event)
}

type (
	waits = purgatory.Purgatory[waitKey]
	// position is a key with the place that is waited for: an offset in produces, a
	// number of bytes in fetches.
	position = purgatory.KeyPosition[waitKey]
)

func at(e event, p *partition, place int64) position {
	return position{Key: waitKey{event: e, partition: p.topicPartition}, Position: place}
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
}
