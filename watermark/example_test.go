package watermark_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/watermark"
)

// A thousand readers wait for the same record, and one operation stands for them in the purgatory.
func Example() {
	p, err := purgatory.New[string]("fetches")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer p.Close()
	end := watermark.New(p, "orders-0", 41) // the log has 41 records

	var readers sync.WaitGroup
	var came atomic.Int64
	for range 1000 {
		readers.Go(func() {
			came.Add(1)
			if err := end.Await(context.Background(), time.Minute, 42); err != nil {
				fmt.Println(err)
			}
		})
	}
	waiting := 0
	for range 60_000 { // for a minute at most: those who come at the same moment share one operation in the end
		if waiting = p.NumDelayed(); waiting == 1 && came.Load() == 1000 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	fmt.Println("waiting:", waiting)

	end.Advance(42) // the writer has appended one
	readers.Wait()
	fmt.Println("all have read up to", end.Position())
	// Output:
	// waiting: 1
	// all have read up to 42
}

// An era of a partition ends: the leader steps down while a request waits for its record, and another request comes late.
// Neither gets a yes from what the next leader replicates.
func ExampleWatermark_Close() {
	type era struct {
		partition string
		epoch     int
	}
	p, err := purgatory.New[era]("produces")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer p.Close()
	ctx := context.Background()

	// The leader of epoch 5 has 40 records on all replicas. Requests append two more, and keep the watermark of the epoch.
	epoch5 := watermark.New(p, era{"orders-0", 5}, 40)
	early := make(chan error)
	go func() { early <- epoch5.Await(ctx, time.Minute, 41) }()
	for range 60_000 { // for a minute at most
		if epoch5.Waiting() == 1 {
			break
		}
		time.Sleep(time.Millisecond)
	}

	// It steps down before anybody has replicated them.
	epoch6 := watermark.New(p, era{"orders-0", 6}, 40)
	epoch5.Close(errors.New("not the leader"))
	fmt.Println("the request that waited:", <-early)

	// The new leader replicates two records of its own.
	go epoch6.Advance(42)
	fmt.Println("a reader that follows it:", epoch6.Await(ctx, time.Minute, 42))
	fmt.Println("the request that came late:", epoch5.Await(ctx, time.Minute, 42))
	// Output:
	// the request that waited: not the leader
	// a reader that follows it: <nil>
	// the request that came late: not the leader
}
