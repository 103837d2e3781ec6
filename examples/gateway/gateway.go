// Gateway lets a bounded number of requests through at a time. The others wait in line for a slot, in
// order of arrival, and in turn where several users wait. A request that finds the line full, or waits too
// long, gets 429 with Retry-After.
// SIGTERM drains it: what waits is served, what comes is sent away with 503, and then the server ends.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/delayedop/purgatory/queue"
)

// limits bound what clients can make the gateway hold.
type limits struct {
	slots int           // requests that are let through at a time
	line  int           // requests that wait for a slot
	wait  time.Duration // that a request waits at most
}

// gateway is a handler before another one, next. It is safe for concurrent use.
type gateway struct {
	next   http.Handler
	limits limits
	slots  *queue.Queue[struct{}] // those that are free
}

func newGateway(next http.Handler, l limits) (*gateway, error) {
	if l.slots < 1 || l.line < 1 || l.wait <= 0 {
		return nil, fmt.Errorf("%+v: nobody would get a slot, or the line would have no end", l)
	}
	slots, err := queue.New[struct{}](queue.WithMaxWaiting(l.line))
	if err != nil {
		return nil, err
	}
	return &gateway{next: next, limits: l, slots: slots}, slots.Put(struct{}{}, queue.Place{N: l.slots})
}

func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	tenant, _, _ := r.BasicAuth() // check who it is before: else a flood comes under many names
	_, err := g.slots.Take(r.Context(), g.limits.wait, queue.Place{Tenant: tenant})
	switch {
	case err == nil: // the slot is ours, also if the client has left meanwhile
		defer func() { _ = g.slots.Put(struct{}{}) }() // refused if the gateway has drained: nobody wants a slot
		g.next.ServeHTTP(w, r)
	case errors.Is(err, queue.ErrFull), errors.Is(err, queue.ErrExpired):
		refuse(w, http.StatusTooManyRequests, err)
	default: // the gateway drains, or the client has left, and nobody reads the answer
		w.Header().Set("Connection", "close") // the client's next request goes to another process
		refuse(w, http.StatusServiceUnavailable, err)
	}
}

func refuse(w http.ResponseWriter, status int, err error) {
	w.Header().Set("Retry-After", "1")
	http.Error(w, err.Error(), status)
}

// answerTime is how long a drain waits, when its time is over, for answers that are being written.
const answerTime = 5 * time.Second

// drain ends the gateway and its server. The requests that wait get their slots as others end. New ones
// get 503 until nobody waits any more; then the listener closes, and the requests under way end. When
// ctx ends, drain sends away whoever still waits. It cuts off what has not ended answerTime later.
func (g *gateway) drain(ctx context.Context, server *http.Server) error {
	err := g.slots.Shutdown(ctx)
	if server.Shutdown(ctx) == nil {
		return err
	}
	// The waits have ended, but their handlers have yet to write the 503. With ctx, which has ended,
	// server.Shutdown does not wait for them, and server.Close would hang up on them.
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTime)
	defer cancel()
	if cut := server.Shutdown(late); cut != nil {
		err = errors.Join(err, cut, server.Close())
	}
	return err
}
