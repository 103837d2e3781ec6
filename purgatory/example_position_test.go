package purgatory_test

import (
	"fmt"
	"time"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// delayedAck waits until a log has reached its offset.
type delayedAck struct {
	operation.DelayedOperation
	offset int64
	log    *int64
}

func (a *delayedAck) TryComplete() bool { return *a.log >= a.offset }
func (a *delayedAck) OnComplete()       { fmt.Println("offset", a.offset, a.Outcome()) }
func (a *delayedAck) OnExpiration()     {}

// A step of a log tries only the operations that it has reached, in order of position.
func ExamplePurgatory_CheckAndCompleteUpTo() {
	p, _ := purgatory.New[string]("produce")

	var log int64
	for _, offset := range []int64{30, 10, 20} {
		ack := &delayedAck{offset: offset, log: &log}
		_, _ = p.TryCompleteElseWatchAt(ack, time.Minute, purgatory.KeyPosition[string]{Key: "orders-0", Position: offset})
	}
	log = 25
	fmt.Println("completed:", p.CheckAndCompleteUpTo("orders-0", log))
	fmt.Println("tried:", p.Stats().Checks)
	_ = p.Close()
	// Output:
	// offset 10 satisfied
	// offset 20 satisfied
	// completed: 2
	// tried: 2
	// offset 30 closed
}
