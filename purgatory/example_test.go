package purgatory_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/delayedop/purgatory/purgatory"
)

// broker appends records, and answers a produce request with acks=all when both followers
// have fetched the record.
type broker struct {
	produces   *purgatory.Purgatory[string] // by partition
	end        atomic.Int64
	replicated atomic.Int64
}

// produce serves a request. Its goroutine waits until the record is replicated, at most 30
// seconds. If the client has gone, ctx has ended, and Await returns ctx's cause.
func (b *broker) produce(ctx context.Context) error {
	end := b.end.Add(1)
	replicated := func() bool { return b.replicated.Load() >= end }
	return b.produces.Await(ctx, 30*time.Second, replicated, "orders-0")
}

// fetched is called when both followers have fetched up to end. It changes the state
// first, and then says where.
func (b *broker) fetched(end int64) {
	b.replicated.Store(end)
	b.produces.CheckAndComplete("orders-0")
}

// A goroutine for each request waits in Await.
func Example() {
	p, err := purgatory.New[string]("produce")
	if err != nil {
		panic(err)
	}
	defer p.Close()

	b := &broker{produces: p}
	answer := make(chan error)
	go func() { answer <- b.produce(context.Background()) }()
	b.fetched(1)
	fmt.Println("answered:", <-answer)
	// Output: answered: <nil>
}
