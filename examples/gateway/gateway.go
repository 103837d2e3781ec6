// Gateway lets a bounded number of requests through at a time. The others wait in line for a slot, in
// order of arrival. A request that finds the line full, or waits too long, gets 429 with Retry-After.
// SIGTERM drains it: what waits is served, what comes is sent away with 503, and then the server ends.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/delayedop/purgatory/purgatory"
)

// limits bound what clients can make the gateway hold.
type limits struct {
	slots int           // requests that are let through at a time
	line  int           // requests that wait for a slot
	wait  time.Duration // that a request waits at most
}

// gateway is a handler before another one, next. It is safe for concurrent use.
type gateway struct {
	next    http.Handler
	limits  limits
	waiting *purgatory.Purgatory[string] // requests, all under the key slot

	mu struct {
		sync.Mutex
		free int // slots
	}
}

// slot is what requests wait for. A gateway with several backends has a key for each.
const slot = "slot"

func newGateway(next http.Handler, l limits) (*gateway, error) {
	if l.slots < 1 || l.line < 1 || l.wait <= 0 {
		return nil, fmt.Errorf("%+v: nobody would get a slot, or the line would have no end", l)
	}
	waiting, err := purgatory.New[string]("gateway", purgatory.WithFirstInFirstOut(), purgatory.WithMaxPending(l.line))
	if err != nil {
		return nil, err
	}
	g := &gateway{next: next, limits: l, waiting: waiting}
	g.mu.free = l.slots
	return g, nil
}

func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	err := g.waiting.Await(r.Context(), g.limits.wait, g.take, slot)
	switch {
	case err == nil: // the slot is ours, also if the client has left meanwhile: a yes wins
		defer g.release()
		g.next.ServeHTTP(w, r)
	case errors.Is(err, purgatory.ErrFull), errors.Is(err, purgatory.ErrExpired):
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

// take is the condition of a request: it takes a slot, if one is free.
func (g *gateway) take() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.free == 0 {
		return false
	}
	g.mu.free--
	return true
}

// release gives a slot back first, and then has those who wait tried in order: the first takes it.
func (g *gateway) release() {
	g.mu.Lock()
	g.mu.free++
	g.mu.Unlock()
	g.waiting.CheckAndCompleteInOrder(slot)
}

// free returns how many slots are free.
func (g *gateway) free() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mu.free
}

// answerTime is how long a drain waits, when its time is over, for answers that are being written.
const answerTime = 5 * time.Second

// drain ends the gateway and its server. The requests that wait get their slots as others end. New ones
// get 503 until nobody waits any more; then the listener closes, and the requests under way end. When
// ctx ends, drain sends away whoever still waits. It cuts off what has not ended answerTime later.
func (g *gateway) drain(ctx context.Context, server *http.Server) error {
	err := g.waiting.Shutdown(ctx)
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
