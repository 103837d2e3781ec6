// Quickstart is the smallest whole use of a purgatory: one operation waits, a state change completes it.
package main

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

type delayedProduce struct {
	operation.DelayedOperation              // the embedded state: one allocation for the whole request
	replicated                 *atomic.Bool // what it waits for
}

func (d *delayedProduce) TryComplete() bool { return d.replicated.Load() }
func (d *delayedProduce) OnComplete()       { fmt.Println("answered:", d.Outcome()) }
func (d *delayedProduce) OnExpiration()     { fmt.Println("nobody replicated it within 30 s") }

func main() {
	p, err := purgatory.New[string]("produce")
	if err != nil {
		panic(err)
	}
	defer p.Close()

	var replicated atomic.Bool
	completed, err := p.TryCompleteElseWatch(&delayedProduce{replicated: &replicated}, 30*time.Second, "orders-0")
	fmt.Println("completed at once:", completed, err)

	replicated.Store(true)                                        // first the state changes,
	fmt.Println("completed now:", p.CheckAndComplete("orders-0")) // then whoever changed it says where
}
