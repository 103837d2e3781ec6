// Package faults has small servers for the tests of what an operator sees: some with a fault that people have had, and some
// that are well. Each has one purgatory, with default options but for what it declares, and perhaps a watermark or a line. They run on
// time.Sleep: in the bubble of a synctest, or for real.
package faults

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/queue"
	"github.com/delayedop/purgatory/watermark"
)

// Purgatory is that of a server.
type Purgatory = purgatory.DelayedOperationPurgatory[string]

// Server is a small server.
type Server struct {
	Name string
	// Page is the level of the worst note that the page should have after a while: "trouble", "look" or "" for none. Note is
	// how that note should read.
	Page, Note string
	// Also is how another note should read; empty: there need be none.
	Also string
	// After is how soon the page should say so.
	After time.Duration
	// Alerts are those that should fire after twenty minutes.
	Alerts []string
	// Log is the event that should be in the log by then, and Says what it should name; empty: none.
	Log, Says string

	opts []purgatory.Option
	run  func(*server)
}

// Running is a server that runs.
type Running struct {
	Purgatory *Purgatory
	Watermark *watermark.Watermark[string] // nil: it has none
	Line      *queue.Queue[int]            // nil: it has none
	Stop      func()                       // ends the server, and closes all that
}

// Run runs the server, whose purgatory has these options, too.
func (s *Server) Run(opts ...purgatory.Option) (*Running, error) {
	p, err := purgatory.New[string](s.Name, append(opts, s.opts...)...)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	running := &server{p: p, ctx: ctx, answer: func(int) {}}
	s.run(running)
	return &Running{p, running.mark, running.line, func() {
		cancel()
		_ = p.Shutdown(ctx)
		running.running.Wait()
		for p.Stats().Running > 0 { // callbacks that have been blocked
			time.Sleep(time.Second)
		}
	}}, nil
}

// server is a server that runs.
type server struct {
	p       *Purgatory
	mark    *watermark.Watermark[string]
	line    *queue.Queue[int]
	ctx     context.Context // ends with the server
	running sync.WaitGroup
	answer  func(partition int)
}

// crowd has so many clients wait for the next position of a watermark, again and again.
func (s *server) crowd(clients int, timeout time.Duration) {
	s.mark = watermark.New(s.p, "replicated", 0)
	for range clients {
		s.running.Go(func() {
			for s.ctx.Err() == nil {
				_ = s.mark.Await(s.ctx, timeout, s.mark.Position()+1)
			}
		})
	}
}

// takeSlots has twenty workers use ten slots of a line, in which ten may wait. Each ends with end.
func (s *server) takeSlots(end func()) {
	s.line, _ = queue.New[int](queue.WithMaxWaiting(10))
	for range 10 {
		_ = s.line.Put(0)
	}
	for range 20 {
		s.each(time.Second, func(int) {
			if _, err := s.line.Take(s.ctx, purgatory.NoTimeout); err == nil {
				time.Sleep(time.Second)
				end()
			}
		})
	}
}

// flood has so many clients of two tenants use ten slots of a line, in which sixty may wait.
func (s *server) flood(loud string, louds int, quiet string, quiets int) {
	s.line, _ = queue.New[int](queue.WithMaxWaiting(60))
	for range 10 {
		_ = s.line.Put(0)
	}
	for tenant, clients := range map[string]int{loud: louds, quiet: quiets} {
		for range clients {
			s.each(time.Second, func(int) {
				if _, err := s.line.Take(s.ctx, purgatory.NoTimeout, queue.Place{Tenant: tenant}); err == nil {
					time.Sleep(time.Second)
					_ = s.line.Put(0)
				}
			})
		}
	}
}

// each calls do at intervals until the server ends. n counts the calls.
func (s *server) each(interval time.Duration, do func(n int)) {
	s.running.Go(func() {
		for n := 0; s.ctx.Err() == nil; n++ {
			do(n)
			select {
			case <-s.ctx.Done():
			case <-time.After(interval):
			}
		}
	})
}

func (s *server) submit(r *request, timeout time.Duration, key string) {
	_, _ = s.p.TryCompleteElseWatch(r, timeout, key)
}

const (
	partitions     = 20
	produceTimeout = 5 * time.Second
)

func key(partition int) string { return fmt.Sprint("orders-", partition) }

// produce has each partition get a produce every two seconds, whose followers have the record 50 ms later. replicated is called then:
// change makes the condition of the produce true, and check checks a key.
func (s *server) produce(replicated func(partition int, change func(), check func(key string))) {
	for partition := range partitions {
		s.each(2*time.Second, func(int) {
			var done atomic.Bool
			s.submit(&request{ready: done.Load, answer: func() { s.answer(partition) }}, produceTimeout, key(partition))
			s.running.Go(func() {
				time.Sleep(50 * time.Millisecond)
				replicated(partition, func() { done.Store(true) }, func(key string) { s.p.CheckAndComplete(key) })
			})
		})
	}
}

// checked is how it should be.
func checked(partition int, change func(), check func(key string)) {
	change()
	check(key(partition))
}

func never() bool { return false }

// request is the operation that the servers submit.
type request struct {
	operation.DelayedOperation
	ready  func() bool
	answer func()
}

func (r *request) TryComplete() bool { return r.ready() }
func (r *request) OnExpiration()     {}

func (r *request) OnComplete() {
	if r.answer != nil {
		r.answer()
	}
}
