package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/delayedop/purgatory/purgatory"
)

type pool struct {
	waiting *purgatory.Purgatory[string] // callers of get; with WithFirstInFirstOut
	mu      sync.Mutex
	idle    []string // connections
}

// get blocks its caller until a connection is idle. With a nil error the connection is the caller's, even if ctx has ended.
func (p *pool) get(ctx context.Context) (conn string, err error) {
	return purgatory.AwaitValue(ctx, p.waiting, 30*time.Second, p.take, "idle")
}

// take is the condition: it takes a connection, if one is idle.
func (p *pool) take() (conn string, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) == 0 {
		return "", false
	}
	conn, p.idle = p.idle[0], p.idle[1:]
	return conn, true
}

func (p *pool) put(conn string) {
	p.mu.Lock()
	p.idle = append(p.idle, conn) // first add the item,
	p.mu.Unlock()
	p.waiting.CheckAndCompleteInOrder("idle") // then let the first in line take it
}

func Example_oneOfMany() {
	waiting, err := purgatory.New[string]("pool", purgatory.WithFirstInFirstOut())
	if err != nil {
		panic(err)
	}
	defer waiting.Close()
	p := &pool{waiting: waiting}
	go p.put("connection 1")
	fmt.Println(p.get(context.Background()))
	// Output:
	// connection 1 <nil>
}
