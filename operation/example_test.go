package operation_test

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// delayedFetch waits until a log has data beyond an offset.
type delayedFetch struct {
	operation.DelayedOperation
	end    *atomic.Int64 // end of the log
	offset int64
}

func (f *delayedFetch) TryComplete() bool { return f.end.Load() > f.offset }
func (f *delayedFetch) OnComplete()       { fmt.Println("answered:", f.Outcome()) }
func (f *delayedFetch) OnExpiration()     {}

// A fetch waits for data, and the append that brings the data completes it.
func Example() {
	p, err := purgatory.New[string]("fetches")
	if err != nil {
		panic(err)
	}
	defer p.Close()

	var end atomic.Int64
	fetch := &delayedFetch{end: &end, offset: 0}
	completed, err := p.TryCompleteElseWatch(fetch, 30*time.Second, "orders-0")
	fmt.Println("completed:", completed, "error:", err)

	end.Add(1) // change state first
	p.CheckAndComplete("orders-0")
	// Output:
	// completed: false error: <nil>
	// answered: satisfied
}
