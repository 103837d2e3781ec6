package watermark_test

import (
	"context"
	"fmt"
	"sync"
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
	for range 1000 {
		readers.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			if err := end.Await(ctx, 42); err != nil {
				fmt.Println(err)
			}
		})
	}
	for p.NumDelayed() == 0 { // until the first of them waits
		time.Sleep(time.Millisecond)
	}
	fmt.Println("waiting:", p.NumDelayed())

	end.Advance(42) // the writer has appended one
	readers.Wait()
	fmt.Println("all have read up to", end.Position())
	// Output:
	// waiting: 1
	// all have read up to 42
}
