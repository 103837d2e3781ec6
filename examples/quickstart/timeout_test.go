package main

import (
	"errors"
	"testing"
	"time"

	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/purgatory/purgatorytest"
)

func TestProduceTimesOut(t *testing.T) {
	p := purgatorytest.New[string](t)
	s := &server{waiting: p.Purgatory}
	answer := make(chan error, 1)
	go func() { answer <- s.produce(t.Context(), 0) }()

	p.WaitPending(1)               // the handler has begun to wait
	p.JustBefore(30 * time.Second) // no follower acknowledges
	p.WaitPending(1)               // the handler still waits
	p.JustAfter(30 * time.Second)
	if err := <-answer; !errors.Is(err, purgatory.ErrExpired) {
		t.Fatalf("got %v, want a timeout", err)
	}
}
