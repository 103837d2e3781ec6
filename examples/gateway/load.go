package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/delayedop/purgatory/examples/internal/program"
)

// load is a backend that takes its time, and clients that ask for more than it can serve. It ends with
// a SIGTERM to this process.
type load struct {
	duration, service time.Duration
	clients           int

	client  *http.Client
	running sync.WaitGroup

	mu       sync.Mutex
	inside   int             // requests at the backend
	most     int             // inside, at its highest
	served   int             // requests that the backend has answered
	answered []time.Duration // what clients have waited for a 200
	refused  int             // 429
	sentAway int             // 503
	drained  int             // requests that waited in line when the SIGTERM was sent
	errs     []error
}

// ServeHTTP is the backend.
func (l *load) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	l.count(func() { l.inside++; l.most = max(l.most, l.inside) })
	time.Sleep(l.service)
	l.count(func() { l.inside--; l.served++ })
	_, _ = io.WriteString(w, "served\n")
}

// start starts the clients. They run until ctx has ended and they are sent away.
func (l *load) start(ctx context.Context, g *gateway, url string, out io.Writer, stop func()) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = 0, l.clients
	l.client = &http.Client{Transport: transport}
	for range l.clients {
		l.running.Go(func() {
			for l.request(ctx, url) {
			}
		})
	}
	l.running.Go(func() {
		l.watch(ctx, g, out)
		for end := time.Now().Add(10 * time.Second); g.waiting.NumDelayed() == 0 && ctx.Err() == nil && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		l.drained = g.waiting.NumDelayed()
		if self, err := os.FindProcess(os.Getpid()); err != nil || self.Signal(syscall.SIGTERM) != nil {
			stop() // a system without signals
		}
	})
}

// watch prints what happens each second until the time is up, or ctx ends.
func (l *load) watch(ctx context.Context, g *gateway, out io.Writer) {
	ctx, cancel := context.WithTimeout(ctx, l.duration)
	defer cancel()
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
			l.count(func() {
				fmt.Fprintf(out, "served %5d   refused %5d   in line %3d   at the backend %2d\n", l.served, l.refused, g.waiting.NumDelayed(), l.inside)
			})
		}
	}
}

// request makes one request. It reports whether the client goes on.
func (l *load) request(ctx context.Context, url string) bool {
	began := time.Now()
	answer, err := l.client.Get(url)
	if err == nil {
		_, err = io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
	}
	if err != nil {
		if ctx.Err() == nil { // else the listener is closed
			l.count(func() { l.errs = append(l.errs, err) })
		}
		return false
	}
	took, again := time.Since(began), answer.Header.Get("Retry-After") != ""
	switch {
	case answer.StatusCode == http.StatusOK:
		l.count(func() { l.answered = append(l.answered, took) })
		return true
	case answer.StatusCode == http.StatusTooManyRequests && again:
		l.count(func() { l.refused++ })
		time.Sleep(rand.N(100 * time.Millisecond)) // a polite client waits as long as Retry-After says
		return true
	case answer.StatusCode == http.StatusServiceUnavailable && again && ctx.Err() != nil:
		l.count(func() { l.sentAway++ })
	default:
		l.count(func() { l.errs = append(l.errs, fmt.Errorf("status %s, Retry-After %v", answer.Status, again)) })
	}
	return false
}

// end waits for the clients and returns an error if a promise was broken, or if nothing happened that
// could have broken one.
func (l *load) end(g *gateway, out io.Writer) error {
	l.running.Wait()
	if l.client == nil {
		return nil // nothing was started
	}
	l.client.CloseIdleConnections()
	fmt.Fprintf(out, "answered %d: %s; refused %d; sent away in the drain %d\n", len(l.answered), program.Spread(l.answered), l.refused, l.sentAway)
	if err := errors.Join(append(l.errs, l.verdict(g))...); err != nil {
		return err
	}
	fmt.Fprintf(out, "OK: never more than %d at the backend, and everybody who waited for a slot was answered\n", g.limits.slots)
	return nil
}

func (l *load) verdict(g *gateway) error {
	switch {
	case l.served == 0:
		return errors.New("no request was served")
	case l.refused == 0:
		return errors.New("no request was refused: more clients than slots and line together cause refusals")
	case l.drained == 0:
		return errors.New("nobody waited when the drain began")
	case l.most > g.limits.slots:
		return fmt.Errorf("%d requests were at the backend at a time; there are %d slots", l.most, g.limits.slots)
	case l.served != len(l.answered):
		return fmt.Errorf("%d requests were served, and %d answers came", l.served, len(l.answered))
	case g.free() != g.limits.slots:
		return fmt.Errorf("%d of %d slots are free in the end", g.free(), g.limits.slots)
	}
	return nil
}

func (l *load) count(one func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	one()
}
