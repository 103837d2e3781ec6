package purgatory_test

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/delayedop/purgatory/purgatory"
)

// Each request waits until the high watermark has passed its record. The high watermark is
// the end of what is replicated, so the record at offset waits for position offset+1. A step
// of the high watermark calls the conditions of the requests that it has reached, and no
// others.
func ExampleDelayedOperationPurgatory_AwaitAt() {
	p, _ := purgatory.New[string]("produce")
	defer p.Close()

	var highWatermark atomic.Int64
	answers := make(chan string)
	for offset := range int64(3) {
		go func() {
			replicated := func() bool { return highWatermark.Load() > offset }
			err := p.AwaitAt(context.Background(), time.Minute, replicated,
				purgatory.KeyPosition[string]{Key: "orders-0", Position: offset + 1})
			answers <- fmt.Sprintf("offset %d, error: %v", offset, err)
		}()
	}
	for p.NumDelayed() < 3 { // until all three wait
		runtime.Gosched()
	}

	highWatermark.Store(2)
	p.CheckAndCompleteUpTo("orders-0", 2)
	fmt.Println(<-answers)
	fmt.Println(<-answers)
	fmt.Println("waiting:", p.NumDelayed())

	highWatermark.Store(3)
	p.CheckAndCompleteUpTo("orders-0", 3)
	fmt.Println(<-answers)
	// Unordered output:
	// offset 0, error: <nil>
	// offset 1, error: <nil>
	// waiting: 1
	// offset 2, error: <nil>
}
