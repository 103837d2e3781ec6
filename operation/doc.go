// Package operation has the types with which you write a delayed operation: a request
// that cannot be answered until some state has changed, or its timeout has passed, as
// a fetch that waits for data. Package purgatory holds them while they wait.
//
//	type delayedFetch struct {
//		operation.DelayedOperation
//		log    *Log
//		offset int64
//		reply  chan Response
//	}
//
//	func (f *delayedFetch) TryComplete() bool { return f.log.End() > f.offset }
//	func (f *delayedFetch) OnComplete()       { f.reply <- f.log.Read(f.offset) } // capacity 1
//	func (f *delayedFetch) OnExpiration()     { timeouts.Add(1) }
//
//	// The handler of a request submits the operation under a key:
//	_, err := p.TryCompleteElseWatch(fetch, 30*time.Second, "orders-0")
//	// The code that changes state checks the key afterwards:
//	p.CheckAndComplete("orders-0")
//
// The three methods never run at the same time for one operation, so they may use its
// fields without a lock. Different goroutines may run them; each sees what the earlier
// ones have written. Package purgatory says which goroutine runs which callback.
package operation
