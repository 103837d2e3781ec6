// Quickstart is the smallest whole use of a purgatory: a produce waits until its record is replicated.
package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/delayedop/purgatory/purgatory"
)

func main() {
	var replicated atomic.Int64 // where the records end that every follower has
	waiting := purgatory.Must(purgatory.New[string]("produce"))
	defer waiting.Close()

	go func() { // a follower has fetched the record at offset 0
		replicated.Store(1)                  // first change the state,
		waiting.CheckAndComplete("orders-0") // then name the key
	}()

	// The handler of the request that has appended the record:
	ready := func() bool { return replicated.Load() > 0 }
	err := waiting.Await(context.Background(), 30*time.Second, ready, "orders-0")
	fmt.Println("replicated, error:", err)
}
