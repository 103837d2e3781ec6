package main

import (
	"context"
	"fmt"
	"time"

	"github.com/delayedop/purgatory/purgatory"
)

type pool struct {
	waiting *purgatory.DelayedOperationPurgatory[string] // with WithFirstInFirstOut
	idle    chan string                                  // connections; it never fills up
}

// get blocks its caller until a connection is idle. A nil error means: it is the caller's, even if ctx has ended.
func (p *pool) get(ctx context.Context) (string, error) {
	return purgatory.AwaitValue(ctx, p.waiting, 30*time.Second, func() (conn string, ok bool) {
		select {
		case conn = <-p.idle:
			return conn, true // it is taken
		default:
			return "", false
		}
	}, "idle")
}

func (p *pool) put(conn string) {
	p.idle <- conn                            // first add the item,
	p.waiting.CheckAndCompleteInOrder("idle") // then let the first in line take it
}

func Example_oneOfMany() {
	waiting, err := purgatory.New[string]("pool", purgatory.WithFirstInFirstOut())
	if err != nil {
		panic(err)
	}
	defer waiting.Close()
	p := &pool{waiting: waiting, idle: make(chan string, 1)}
	go p.put("connection 1")
	fmt.Println(p.get(context.Background()))
	// Output:
	// connection 1 <nil>
}
