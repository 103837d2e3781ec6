package main

import (
	"context"
	"sync"
	"unsafe"

	_ "github.com/nats-io/nats-server/v2/server" // has the functions below
)

// natsRequest begins as the waitingRequest of nats-server v2.15.2 does and has its size. The first
// field is the only one that the queue sets to a pointer; the others stay zero, for a request of one message.
type natsRequest struct {
	_      *natsRequest // the next one
	_      [20]uintptr
	ctx    context.Context
	served channelQueue // capacity 1
}

// The queue of a consumer's waiting pull requests, server/consumer.go, which is not exported.

//go:linkname newWaitQueue github.com/nats-io/nats-server/v2/server.newWaitQueue
func newWaitQueue(most int) unsafe.Pointer

//go:linkname addWaiting github.com/nats-io/nats-server/v2/server.(*waitQueue).add
func addWaiting(line unsafe.Pointer, r *natsRequest) error

//go:linkname popWaiting github.com/nats-io/nats-server/v2/server.(*waitQueue).pop
func popWaiting(line unsafe.Pointer) *natsRequest

// natsQueue keeps those who wait in NATS's queue, under a mutex, as a consumer does. Like that, it leaves out a request
// that nobody waits for when its turn comes.
type natsQueue struct {
	mu    sync.Mutex
	line  unsafe.Pointer // *waitQueue; guarded by mu
	items int            // guarded by mu
}

func (q *natsQueue) Take(ctx context.Context) error {
	r := &natsRequest{ctx: ctx, served: make(channelQueue, 1)}
	q.change(func() { must(addWaiting(q.line, r)) })
	return r.served.Take(ctx)
}

func (q *natsQueue) Put() { q.change(func() { q.items++ }) }

func (q *natsQueue) change(how func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for how(); q.items > 0; {
		r := popWaiting(q.line)
		if r == nil {
			return
		}
		if r.ctx.Err() == nil {
			q.items--
			r.served.Put()
		}
	}
}

func (q *natsQueue) Close() {}
