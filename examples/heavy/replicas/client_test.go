package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"connectrpc.com/connect"

	replicasv1 "github.com/delayedop/purgatory/examples/heavy/replicas/replicas/v1"
	"github.com/delayedop/purgatory/examples/heavy/replicas/replicas/v1/replicasv1connect"
)

// client watches a key at two replicas, and prints what is put. The README quotes it.
func client() {
	ctx, replica, after := context.Background(), 0, int64(0)
	urls := []string{"http://127.0.0.1:8081", "http://127.0.0.1:8082"}
	for {
		client := replicasv1connect.NewStateClient(http.DefaultClient, urls[replica%len(urls)])
		within, cancel := context.WithTimeout(ctx, 30*time.Second) // the replica knows this deadline too
		answer, err := client.Watch(within, connect.NewRequest(&replicasv1.WatchRequest{Key: "a", AfterRevision: after}))
		cancel()
		if err != nil { // the replica stops, is full, or cannot reach the engine: try the next one
			replica++
			time.Sleep(100 * time.Millisecond)
			continue
		}
		if answer.Msg.Changed {
			after = answer.Msg.Entry.Revision
			fmt.Printf("%d: %s\n", after, answer.Msg.Entry.Value)
		}
	}
}
