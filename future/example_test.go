package future_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/delayedop/purgatory/future"
	"github.com/delayedop/purgatory/purgatory"
)

// replica appends a record. In a real program it makes a call over the network.
type replica func() (term string, err error)

func bySource(a, b future.Result[string]) int { return a.From - b.From }

// A record is appended to three replicas, and the program goes on when two have it.
func Example_quorum() {
	p, err := purgatory.New[uint64]("appends")
	if err != nil {
		panic(err)
	}
	defer p.Close()

	replicas := []replica{
		func() (string, error) { return "term 7", nil },
		func() (string, error) { return "", errors.New("connection refused") },
		func() (string, error) { return "term 7", nil },
	}
	const requestID = 17
	f, err := future.Gather[string](p, 30*time.Second, future.Quorum(2, len(replicas)), requestID)
	if err != nil {
		panic(err)
	}
	for i, ask := range replicas {
		go func() {
			term, err := ask()
			f.Deliver(i, term, err)
		}()
	}
	results, err := f.Wait(context.Background())
	for _, r := range slices.SortedFunc(slices.Values(results), bySource) {
		if r.Err == nil {
			fmt.Printf("replica %d: %s\n", r.From, r.Value)
		}
	}
	fmt.Println("error:", err)
	// Output:
	// replica 0: term 7
	// replica 2: term 7
	// error: <nil>
}

// A quorum that can no longer be reached fails at once, not after the timeout.
func Example_unreachable() {
	p, err := purgatory.New[uint64]("appends")
	if err != nil {
		panic(err)
	}
	defer p.Close()

	f, err := future.Gather[string](p, 30*time.Second, future.Quorum(2, 3), 17)
	if err != nil {
		panic(err)
	}
	f.Deliver(0, "", errors.New("disk full"))
	f.Deliver(2, "", errors.New("connection refused"))
	_, err = f.Wait(context.Background())
	fmt.Println(errors.Is(err, future.ErrUnreachable))
	fmt.Println(err)
	// Output:
	// true
	// future: the results wanted can no longer arrive (wanted 2 of 3 results, arrived 0, failed 2); source 0: disk full; source 2: connection refused
}

// All shards are asked, and the request is answered with the results that have arrived
// when the timeout passes. No goroutine waits.
func ExampleGatherFunc() {
	p, err := purgatory.New[uint64]("searches")
	if err != nil {
		panic(err)
	}
	defer p.Close()

	answered := make(chan struct{})
	f, err := future.GatherFunc(p, 10*time.Millisecond, future.All(3), func(hits []future.Result[int], err error) {
		for _, h := range hits {
			fmt.Printf("shard %d: %d hits\n", h.From, h.Value)
		}
		fmt.Println("complete:", err == nil, "timed out:", errors.Is(err, purgatory.ErrExpired))
		close(answered)
	}, 17)
	if err != nil {
		panic(err)
	}
	f.Deliver(2, 40, nil)
	f.Deliver(0, 12, nil)
	<-answered // shard 1 never answers
	fmt.Println("late delivery taken:", f.Deliver(1, 3, nil))
	// Output:
	// shard 2: 40 hits
	// shard 0: 12 hits
	// complete: false timed out: true
	// late delivery taken: false
}

// Each source delivers once. Deliver returns false for a duplicate and for a delivery
// that comes too late.
func ExampleFuture_Deliver() {
	p, err := purgatory.New[string]("lookups")
	if err != nil {
		panic(err)
	}
	defer p.Close()

	f, err := future.Gather[string](p, time.Second, future.Quorum(2, 3), "user-1")
	if err != nil {
		panic(err)
	}
	fmt.Println("first:", f.Deliver(0, "Ada", nil))
	fmt.Println("again:", f.Deliver(0, "Ada", nil))
	fmt.Println("second:", f.Deliver(1, "Ada", nil))
	fmt.Println("late:", f.Deliver(2, "Ada", nil))
	// Output:
	// first: true
	// again: false
	// second: true
	// late: false
}
