package purgatorytest_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/purgatory/purgatorytest"
)

// server is a server whose produce requests have acks=all.
type server struct {
	acks       *purgatory.Purgatory[string]
	end        atomic.Int64 // of the log
	replicated atomic.Int64 // how much of the log both followers have
}

// produce appends a record and waits, at most 30 seconds, until both followers have it.
func (s *server) produce(ctx context.Context) error {
	end := s.end.Add(1)
	return s.acks.Await(ctx, 30*time.Second, func() bool { return s.replicated.Load() >= end }, "orders-0")
}

// fetched is called when both followers have fetched the log up to end.
func (s *server) fetched(end int64) {
	s.replicated.Store(end)
	s.acks.CheckAndComplete("orders-0")
}

// testAcksAll is the test. In your test file it is TestAcksAll.
func testAcksAll(t *testing.T) {
	p := purgatorytest.New[string](t)
	s := &server{acks: p.Purgatory}
	answers := make(chan error, 1)
	for _, want := range []error{nil, purgatory.ErrExpired} {
		go func() { answers <- s.produce(t.Context()) }()
		p.WaitPending(1)               // the request waits for the followers
		p.JustBefore(30 * time.Second) // and still does, a nanosecond before its timeout
		p.WaitPending(1)
		if want == nil {
			s.fetched(1)
		}
		p.JustAfter(30 * time.Second)
		if err := <-answers; !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
}

// A test of a server with acks=all: the first record is replicated at the last moment, the
// second one is not, and its request times out. No second passes.
func Example() {
	_ = testAcksAll
}
