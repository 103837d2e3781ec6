// Quickstart is the smallest whole use of a purgatory: a produce waits until its record is replicated.
package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/delayedop/purgatory/purgatory"
)

type server struct {
	waiting    *purgatory.Purgatory[string] // requests, by partition
	replicated atomic.Int64                 // the end of what all followers have
}

// produce blocks its handler until the record at offset is replicated, at most 30 seconds.
func (s *server) produce(ctx context.Context, offset int64) error {
	ready := func() bool { return s.replicated.Load() > offset }
	return s.waiting.Await(ctx, 30*time.Second, ready, "orders-0")
}

// acknowledge is called, by one goroutine, when all followers have the records below end.
func (s *server) acknowledge(end int64) {
	s.replicated.Store(end)                // first change the state,
	s.waiting.CheckAndComplete("orders-0") // then name the key that it belongs to
}

func main() {
	p := purgatory.Must(purgatory.New[string]("produce"))
	defer p.Close()

	s := &server{waiting: p}
	go s.acknowledge(1)
	fmt.Println("replicated, error:", s.produce(context.Background(), 0))
}
