package purgatory_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/delayedop/purgatory/purgatory"
)

// Await ends in exactly one way: met, timed out, cancelled with its context, or closed.
func ExamplePurgatory_Await() {
	p, _ := purgatory.New[string]("longpoll")
	defer p.Close()
	var posted atomic.Bool

	err := p.Await(context.Background(), time.Millisecond, posted.Load, "news")
	fmt.Println("timed out:", errors.Is(err, purgatory.ErrExpired))

	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("the client has gone"))
	fmt.Println("cancelled:", p.Await(ctx, time.Minute, posted.Load, "news"))

	answer := make(chan error)
	go func() { answer <- p.Await(context.Background(), time.Minute, posted.Load, "news") }()
	posted.Store(true)
	p.CheckAndComplete("news")
	fmt.Println("met:", <-answer)
	// Output:
	// timed out: true
	// cancelled: the client has gone
	// met: <nil>
}

// AwaitValue returns what its function has found.
func ExampleAwaitValue() {
	p, _ := purgatory.New[string]("jobs")
	defer p.Close()

	jobs := make(chan string, 1)
	next := func() (job string, ok bool) {
		select {
		case job = <-jobs:
			return job, true
		default:
			return "", false
		}
	}
	go func() {
		jobs <- "job 1"
		p.CheckAndComplete("jobs")
	}()
	fmt.Println(purgatory.AwaitValue(context.Background(), p, time.Minute, next, "jobs"))
	// Output: job 1 <nil>
}

// CheckAndComplete ends all operations of a key whose condition is met.
func ExamplePurgatory_CheckAndComplete() {
	p, _ := purgatory.New[string]("fetch")
	defer p.Close()

	var available atomic.Int64
	for _, minBytes := range []int64{1, 10, 100} {
		_, _ = p.TryCompleteElseWatch(&delayedFetch{available: &available, minBytes: minBytes}, time.Minute, "orders-0")
	}
	available.Add(50)
	fmt.Println(p.CheckAndComplete("orders-0"), "completed,", p.NumDelayed(), "waiting")
	available.Add(50)
	fmt.Println(p.CheckAndComplete("orders-0"), "completed,", p.NumDelayed(), "waiting")
	// Output:
	// satisfied with 50 bytes
	// satisfied with 50 bytes
	// 2 completed, 1 waiting
	// satisfied with 100 bytes
	// 1 completed, 0 waiting
}

// Signal is for a goroutine that holds a lock which the condition or a callback takes.
func ExamplePurgatory_Signal() {
	p, _ := purgatory.New[string]("group")
	defer p.Close()

	var mu sync.Mutex
	members := 0
	joined := func() bool { mu.Lock(); defer mu.Unlock(); return members == 3 }
	answer := make(chan error)
	go func() { answer <- p.Await(context.Background(), time.Minute, joined, "group") }()

	for range 3 {
		mu.Lock()
		members++
		p.Signal("group") // CheckAndComplete would call joined, which would deadlock
		mu.Unlock()
	}
	fmt.Println("all members have joined:", <-answer)
	// Output: all members have joined: <nil>
}

// CancelForKey ends all that waits for a key, with a reason.
func ExamplePurgatory_CancelForKey() {
	p, _ := purgatory.New[string]("produce")
	defer p.Close()

	errNotLeader := errors.New("not the leader")
	answer := make(chan error)
	for range 2 {
		go func() {
			answer <- p.Await(context.Background(), time.Minute, func() bool { return false }, "orders-0")
		}()
	}
	for p.NumDelayed() < 2 { // until both wait
		time.Sleep(time.Millisecond)
	}
	p.CancelForKey("orders-0", errNotLeader)
	fmt.Println(<-answer)
	fmt.Println(<-answer)
	// Output:
	// not the leader
	// not the leader
}

// Shutdown lets what waits end until its context ends, and closes the purgatory then.
func ExamplePurgatory_Shutdown() {
	p, _ := purgatory.New[string]("fetch")
	var available atomic.Int64
	_, _ = p.TryCompleteElseWatch(&delayedFetch{available: &available, minBytes: 1}, time.Minute, "orders-0")

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	fmt.Println("shut down:", p.Shutdown(ctx))
	fmt.Println("shut down:", p.Shutdown(context.Background())) // waits for callbacks
	// Unordered output:
	// shut down: context deadline exceeded
	// closed with 0 bytes
	// shut down: <nil>
}

// Each request waits until the high watermark has passed its record. The high watermark is
// the end of what is replicated, so the record at offset waits for position offset+1. A step
// of the high watermark calls the conditions of the requests that it has reached, and no
// others.
func ExamplePurgatory_AwaitAt() {
	p, _ := purgatory.New[string]("produce")
	defer p.Close()

	var highWatermark atomic.Int64
	answers := make(chan string)
	for offset := range int64(3) {
		go func() {
			replicated := func() bool { return highWatermark.Load() > offset }
			err := p.AwaitAt(context.Background(), time.Minute, replicated,
				purgatory.KeyPosition[string]{Key: "orders-0", Position: offset + 1})
			answers <- fmt.Sprintf("offset %d, error: %v", offset, err)
		}()
	}
	for p.NumDelayed() < 3 { // until all three wait
		runtime.Gosched()
	}

	highWatermark.Store(2)
	p.CheckAndCompleteUpTo("orders-0", 2)
	fmt.Println(<-answers)
	fmt.Println(<-answers)
	fmt.Println("waiting:", p.NumDelayed())

	highWatermark.Store(3)
	p.CheckAndCompleteUpTo("orders-0", 3)
	fmt.Println(<-answers)
	// Unordered output:
	// offset 0, error: <nil>
	// offset 1, error: <nil>
	// waiting: 1
	// offset 2, error: <nil>
}
