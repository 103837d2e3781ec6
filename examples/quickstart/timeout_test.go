package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/purgatory/purgatorytest"
)

// handle stands for a server's handler.
func handle(ctx context.Context, waiting *purgatory.Purgatory[string]) error {
	never := func() bool { return false }
	return waiting.Await(ctx, 30*time.Second, never, "orders-0")
}

func TestAProduceTimesOut(t *testing.T) {
	answer := make(chan error, 1)

	p := purgatorytest.New[string](t)
	go func() { answer <- handle(t.Context(), p.Purgatory) }() // your handler, given this purgatory
	p.WaitPending(1)                                           // it waits
	p.JustBefore(30 * time.Second)                             // and waits still
	p.JustAfter(30 * time.Second)                              // until now

	if err := <-answer; !errors.Is(err, purgatory.ErrExpired) {
		t.Fatalf("got %v, want a timeout", err)
	}
}
