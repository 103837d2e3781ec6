package purgatory_test

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// delayedFetch is a fetch request that waits for min.bytes. No goroutine waits for it.
type delayedFetch struct {
	operation.DelayedOperation // embedded by value
	available                  *atomic.Int64
	minBytes                   int64
}

// TryComplete reports whether the request can be answered now.
func (f *delayedFetch) TryComplete() bool { return f.available.Load() >= f.minBytes }

// OnComplete answers the request, however the wait has ended: a fetch whose timeout has
// passed is answered with the bytes that are there.
func (f *delayedFetch) OnComplete() { fmt.Println(f.Outcome(), "with", f.available.Load(), "bytes") }

// OnExpiration runs after OnComplete if the timeout has passed. It is a place for a metric.
func (f *delayedFetch) OnExpiration() {}

// An operation waits without a goroutine.
func ExamplePurgatory_TryCompleteElseWatch() {
	p, _ := purgatory.New[string]("fetch")
	defer p.Close()

	var available atomic.Int64
	fetch := &delayedFetch{available: &available, minBytes: 100}
	completed, err := p.TryCompleteElseWatch(fetch, 500*time.Millisecond, "orders-0", "orders-1")
	fmt.Println("completed at once:", completed, err)

	available.Add(60) // the state changes first, then the purgatory is told where
	fmt.Println("completed by the first append:", p.CheckAndComplete("orders-0"))
	available.Add(60)
	fmt.Println("completed by the second:", p.CheckAndComplete("orders-1"))
	// Output:
	// completed at once: false <nil>
	// completed by the first append: 0
	// satisfied with 120 bytes
	// completed by the second: 1
}
