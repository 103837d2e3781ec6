package main

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

type produce struct {
	operation.DelayedOperation // the state of the wait
	replicated                 *atomic.Int64
	offset                     int64
}

func (r *produce) TryComplete() bool { return r.replicated.Load() > r.offset }
func (r *produce) OnComplete()       { fmt.Println("answer:", r.Outcome()) } // once, however it ended
func (r *produce) OnExpiration()     {}

func submit(waiting *purgatory.Purgatory[string], r *produce) error {
	_, err := waiting.TryCompleteElseWatch(r, 30*time.Second, "orders-0")
	return err // not nil: r was refused, and no callback of it runs
}

func Example_operation() {
	waiting := purgatory.Must(purgatory.New[string]("produce"))
	defer waiting.Close()
	var replicated atomic.Int64
	fmt.Println("submitted:", submit(waiting, &produce{replicated: &replicated}))
	replicated.Store(1)
	waiting.CheckAndComplete("orders-0")
	// Output:
	// submitted: <nil>
	// answer: satisfied
}
