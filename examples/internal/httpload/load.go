// Package httpload is what the HTTP examples have in common: a server on a port of its own, and a load that is its judge.
package httpload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Load is clients of a server, and what they have counted. It is safe for concurrent use.
type Load struct {
	client  http.Client
	running sync.WaitGroup

	mu   sync.Mutex
	errs []error // guarded by mu
}

// New returns a load of some clients, each with one request at a time.
func New(clients int) *Load {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = 0, clients
	return &Load{client: http.Client{Transport: transport}}
}

// Go starts n clients. Each calls step until that returns false.
func (l *Load) Go(n int, step func() bool) {
	for range n {
		l.running.Go(func() {
			for step() {
			}
		})
	}
}

// Count calls one, which adds to counts or reads them. Its calls never overlap.
func (l *Load) Count(one func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	one()
}

// Note keeps an error for [Load.Judge]. A nil error is none.
func (l *Load) Note(err error) {
	if err != nil {
		l.Count(func() { l.errs = append(l.errs, err) })
	}
}

// Answer is what a server has answered.
type Answer struct {
	Status int
	Header http.Header
	Text   []byte
}

// Do makes a request.
func (l *Load) Do(ctx context.Context, method, url, body string) (a Answer, err error) {
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return a, err
	}
	answer, err := l.client.Do(r)
	if err != nil {
		return a, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return Answer{answer.StatusCode, answer.Header, text}, err
}

// Progress prints a line each second until ctx ends.
func Progress(ctx context.Context, out io.Writer, line func() string) {
	each := time.NewTicker(time.Second)
	defer each.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-each.C:
			fmt.Fprintln(out, line())
		}
	}
}

// Judge waits until the clients have ended, and prints ok. If an error was noted, or verdict returns
// one, it returns them instead.
func (l *Load) Judge(out io.Writer, verdict func() error, ok string) error {
	l.running.Wait()
	l.client.CloseIdleConnections()
	if err := errors.Join(append(l.errs, verdict())...); err != nil {
		return err
	}
	fmt.Fprintln(out, "OK: "+ok)
	return nil
}
