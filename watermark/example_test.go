package watermark_test

import (
	"context"
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
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			if err := end.Await(ctx, 42); err != nil {
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
