package main

import (
	"context"
	"fmt"
	"time"

	"github.com/delayedop/purgatory/queue"
)

// serve does some work in one of the slots. Where users compete for slots, they get equal shares.
func serve(ctx context.Context, slots *queue.Queue[struct{}], user string, work func()) error {
	if _, err := slots.Take(ctx, 2*time.Second, queue.Place{Tenant: user}); err != nil {
		return err // full, timed out or closed, or the client has left
	}
	defer func() { _ = slots.Put(struct{}{}) }() // to the next in line; an error after Shutdown: close what it was
	work()
	return nil
}

func Example_items() {
	slots, err := queue.New[struct{}](queue.WithMaxWaiting(1000))
	if err != nil {
		panic(err)
	}
	if err := slots.Put(struct{}{}, queue.Place{N: 8}); err != nil { // eight at a time
		panic(err)
	}
	fmt.Println(serve(context.Background(), slots, "alice", func() { fmt.Println("working") }))
	// Output:
	// working
	// <nil>
}
