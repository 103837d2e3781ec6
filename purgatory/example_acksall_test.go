package purgatory_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/timer"
)

// delayedProduce is a produce request with acks=all. It waits until every partition that
// it has written to is replicated.
type delayedProduce struct {
	operation.DelayedOperation
	name           string
	highWatermarks map[string]int64
	required       map[string]int64 // the high watermark that it waits for, by partition
}

func (d *delayedProduce) TryComplete() bool {
	for partition, offset := range d.required {
		if d.highWatermarks[partition] < offset {
			return false
		}
	}
	return true
}

func (d *delayedProduce) OnComplete() { fmt.Println(d.name, d.Outcome(), d.Cause()) }

func (d *delayedProduce) OnExpiration() { fmt.Println(d.name, "was not replicated in time") }

// The life of produce requests with acks=all: one is replicated, one is cancelled because
// the leader changes, one times out. The clock is moved by hand, as in a test.
func Example_acksAll() {
	clock, _ := timer.NewManualTimer()
	p, _ := purgatory.New[string]("produce", purgatory.WithTimer(clock))
	defer p.Close()

	log := map[string]int64{}
	for _, d := range []*delayedProduce{
		{name: "first", required: map[string]int64{"orders-0": 10}},
		{name: "second", required: map[string]int64{"orders-0": 20, "orders-1": 5}},
		{name: "third", required: map[string]int64{"orders-2": 1}},
	} {
		d.highWatermarks = log
		var partitions []string
		for partition := range d.required {
			partitions = append(partitions, partition)
		}
		_, _ = p.TryCompleteElseWatch(d, 30*time.Second, partitions...)
	}

	log["orders-0"] = 20 // the slower follower has fetched
	p.CheckAndComplete("orders-0")
	p.CancelForKey("orders-2", errors.New("not the leader"))

	p.AdvanceClock(30*time.Second - 1)
	fmt.Println("waiting:", p.NumDelayed())
	p.AdvanceClock(1)
	fmt.Println("waiting:", p.NumDelayed())
	// Output:
	// first satisfied <nil>
	// third cancelled not the leader
	// waiting: 1
	// second expired <nil>
	// second was not replicated in time
	// waiting: 0
}
