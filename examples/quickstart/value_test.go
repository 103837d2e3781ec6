package main

import (
	"context"
	"fmt"
	"time"

	"github.com/delayedop/purgatory/purgatory"
)

// end blocks its handler until there are replicated records beyond an offset, and returns where they end.
func (s *server) end(ctx context.Context, beyond int64) (int64, error) {
	return purgatory.AwaitValue(ctx, s.waiting, 30*time.Second, func() (int64, bool) {
		end := s.replicated.Load()
		return end, end > beyond
	}, "orders-0")
}

func Example_value() {
	p, err := purgatory.New[string]("produce")
	if err != nil {
		panic(err)
	}
	defer p.Close()
	s := &server{waiting: p}
	go s.acknowledge(3)
	fmt.Println(s.end(context.Background(), 0))
	// Output:
	// 3 <nil>
}
