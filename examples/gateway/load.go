package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/delayedop/purgatory/examples/internal/httpload"
	"github.com/delayedop/purgatory/examples/internal/program"
)

// load is a backend that takes its time, and clients that ask for more than it can serve: many of one user,
// and one of another, quiet. It ends with a SIGTERM to this process.
type load struct {
	*httpload.Load
	duration, service time.Duration
	clients           int

	inside   int             // requests at the backend
	most     int             // inside, at its highest
	served   int             // requests that the backend has answered
	answered []time.Duration // what the flood has waited for a 200
	quiet    []time.Duration // what the quiet user has
	refused  int             // 429
	sentAway int             // 503
	drained  int             // requests that waited in line when the SIGTERM was sent
}

// ServeHTTP is the backend.
func (l *load) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	l.Count(func() { l.inside++; l.most = max(l.most, l.inside) })
	time.Sleep(l.service)
	l.Count(func() { l.inside--; l.served++ })
	_, _ = io.WriteString(w, "served\n")
}

// start starts the clients. They run until ctx has ended and they are sent away.
func (l *load) start(ctx context.Context, g *gateway, url string, out io.Writer, stop func()) {
	l.Go(l.clients, func() bool { return l.request(ctx, strings.Replace(url, "//", "//flood@", 1), &l.answered) })
	l.Go(1, func() bool { return l.request(ctx, strings.Replace(url, "//", "//quiet@", 1), &l.quiet) })
	l.Go(1, func() bool {
		loading, cancel := context.WithTimeout(ctx, l.duration)
		defer cancel()
		httpload.Progress(loading, out, func() (line string) {
			l.Count(func() {
				line = fmt.Sprintf("served %5d   refused %5d   in line %3d   at the backend %2d", l.served, l.refused, g.slots.Stats().Waiting, l.inside)
			})
			return line
		})
		for end := time.Now().Add(10 * time.Second); l.drained == 0 && ctx.Err() == nil && time.Now().Before(end); time.Sleep(time.Millisecond) {
			l.drained = g.slots.Stats().Waiting
		}
		if self, err := os.FindProcess(os.Getpid()); err != nil || self.Signal(syscall.SIGTERM) != nil {
			stop() // a system without signals
		}
		return false
	})
}

// request makes one request, and adds what it took. It reports whether the client goes on.
func (l *load) request(ctx context.Context, url string, answered *[]time.Duration) bool {
	began := time.Now()
	answer, err := l.Do(context.Background(), http.MethodGet, url, "")
	if err != nil {
		if ctx.Err() == nil { // else the listener is closed
			l.Note(err)
		}
		return false
	}
	took, again := time.Since(began), answer.Header.Get("Retry-After") != ""
	switch {
	case answer.Status == http.StatusOK:
		l.Count(func() { *answered = append(*answered, took) })
		return true
	case answer.Status == http.StatusTooManyRequests && again:
		l.Count(func() { l.refused++ })
		time.Sleep(rand.N(100 * time.Millisecond)) // a polite client waits as long as Retry-After says
		return true
	case answer.Status == http.StatusServiceUnavailable && again && ctx.Err() != nil:
		l.Count(func() { l.sentAway++ })
	default:
		l.Note(fmt.Errorf("status %d, Retry-After %v", answer.Status, again))
	}
	return false
}

// end waits for the clients and returns an error if a promise was broken, or if nothing happened that
// could have broken one.
func (l *load) end(g *gateway, out io.Writer) error {
	return l.Judge(out, func() error {
		fmt.Fprintf(out, "the flood %d: %s; quiet %d: %s\n", len(l.answered), program.Spread(l.answered), len(l.quiet), program.Spread(l.quiet))
		fmt.Fprintf(out, "refused %d; sent away in the drain %d\n", l.refused, l.sentAway)
		return l.verdict(g)
	}, fmt.Sprintf("never more than %d at the backend, and everybody who waited for a slot was answered", g.limits.slots))
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
	case l.served != len(l.answered)+len(l.quiet):
		return fmt.Errorf("%d requests were served, and %d answers came", l.served, len(l.answered)+len(l.quiet))
	case int64(l.served) != g.slots.Stats().Served:
		return fmt.Errorf("%d requests were served with %d slots", l.served, g.slots.Stats().Served)
	}
	return nil
}
