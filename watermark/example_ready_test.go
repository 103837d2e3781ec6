package watermark_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/watermark"
)

// store applies the entries of a raft log. A read that must see all that was committed when it came waits until the store
// has applied as much: rqlite calls this a ready target.
type store struct{ applied *watermark.Watermark[string] }

// apply is called by the goroutine that applies the log.
func (s *store) apply(index int64) { s.applied.Advance(index) }

// read waits for at most timeout. Equal reads share one operation, and one that leaves takes its own subscription along.
func (s *store) read(ctx context.Context, timeout time.Duration, committed int64) (string, error) {
	if err := s.applied.Await(ctx, timeout, committed); err != nil {
		return "", err
	}
	return fmt.Sprintf("the state at %d", s.applied.Position()), nil
}

// notify is for a goroutine that has more to select on. It has to Stop the wait that it does not see to its end.
func (s *store) notify(ctx context.Context, index int64, quit <-chan struct{}) error {
	ready, err := s.applied.StartWait(index)
	if err != nil {
		return err
	}
	defer ready.Stop()
	select {
	case <-ready.Done():
		return ready.Err()
	case <-quit:
		return errors.New("quit")
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// A ready target: subscribe, reach, and leave, without a subscription that is left behind.
func Example_readyTarget() {
	p, err := purgatory.New[string]("reads")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer p.Close()
	s := &store{watermark.New(p, "applied", 41)}
	ctx := context.Background()

	_, err = s.read(ctx, 10*time.Millisecond, 42) // nobody applies 42
	fmt.Println(errors.Is(err, purgatory.ErrExpired), s.applied.Stats().Expired, "timed out,", p.NumDelayed(), "left behind")

	go s.apply(42)
	fmt.Println(s.read(ctx, time.Minute, 42))

	quit := make(chan struct{})
	close(quit)
	fmt.Println(s.notify(ctx, 43, quit), p.NumDelayed(), "left behind")

	s.applied.Close(errors.New("the node is no longer a member"))
	fmt.Println(s.notify(ctx, 42, nil))
	// Output:
	// true 1 timed out, 0 left behind
	// the state at 42 <nil>
	// quit 0 left behind
	// the node is no longer a member
}
