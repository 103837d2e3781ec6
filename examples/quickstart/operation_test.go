package main

import (
	"fmt"
	"time"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// delayedProduce is a produce that waits without a goroutine.
type delayedProduce struct {
	operation.DelayedOperation // the state: one allocation for the whole request
	server                     *server
	offset                     int64
}

func (d *delayedProduce) TryComplete() bool { return d.server.replicated.Load() > d.offset }
func (d *delayedProduce) OnComplete()       { fmt.Println("answer:", d.Outcome()) } // exactly once
func (d *delayedProduce) OnExpiration()     { fmt.Println("counted as a timeout") } // afterwards, if it expired

func (s *server) submit(offset int64) error {
	_, err := s.waiting.TryCompleteElseWatch(&delayedProduce{server: s, offset: offset}, 30*time.Second, "orders-0")
	return err // not nil: it was refused, and neither callback will run
}

func Example_operation() {
	p, err := purgatory.New[string]("produce")
	if err != nil {
		panic(err)
	}
	defer p.Close()
	s := &server{waiting: p}
	fmt.Println("submitted:", s.submit(0))
	s.acknowledge(1)
	// Output:
	// submitted: <nil>
	// answer: satisfied
}
