package main

import (
	"context"
	"fmt"
	"time"

	"github.com/delayedop/purgatory/queue"
)

type pool struct{ idle *queue.Queue[string] } // connections

// get blocks its caller until a connection is idle. With a nil error the connection is the caller's, even if ctx has ended.
func (p *pool) get(ctx context.Context) (conn string, err error) {
	return p.idle.Take(ctx, 30*time.Second)
}

// put gives a connection to the first in line, or keeps it.
func (p *pool) put(conn string) error { return p.idle.Put(conn) }

func Example_oneOfMany() {
	idle, err := queue.New[string](queue.WithMaxWaiting(1000))
	if err != nil {
		panic(err)
	}
	p := &pool{idle}
	go p.put("connection 1")
	fmt.Println(p.get(context.Background()))
	// Output:
	// connection 1 <nil>
}
