// Package faults has small servers for the tests of what an operator sees: some with a fault that people have had, and some
// that are well. Each has one purgatory, with default options. They run on time.Sleep, in the bubble of a synctest.
package faults

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// Purgatory is that of a server.
type Purgatory = purgatory.DelayedOperationPurgatory[string]

// Server is a small server.
type Server struct {
	Name string
	// Page is the level of the worst note that the page should have after a while: "trouble", "look" or "" for none. Note is
	// how that note should read.
	Page, Note string
	// After is how soon the page should say so.
	After time.Duration
	// Alerts are those that should fire after twenty minutes.
	Alerts []string

	opts []purgatory.Option
	run  func(*server)
}

// Sick are servers with one fault each.
var Sick = []Server{
	{
		Name: "a check is missing", Page: "trouble", Note: `^\d+ operations have expired in the last \d\d s, and nobody had checked orders-\d+.* since they were registered: is a CheckAndComplete missing`, After: 24 * time.Second,
		Alerts: []string{"PurgatoryUnchecked"},
		run: func(s *server) {
			s.produce(func(partition int, change func(), check func(key string)) {
				if change(); partition%2 == 0 { // the other half forgets
					check(key(partition))
				}
			})
		},
	},
	{
		Name: "a key is misspelt", Page: "trouble", Note: `^\d+ operations have expired in the last \d\d s, and nobody had checked orders-\d+.* since they were registered: is a CheckAndComplete missing`, After: 24 * time.Second,
		Alerts: []string{"PurgatoryUnchecked"},
		run: func(s *server) {
			s.produce(func(partition int, change func(), check func(key string)) {
				if change(); partition < partitions/2 {
					check(key(partition))
				} else {
					check(fmt.Sprintf("order-%d", partition))
				}
			})
		},
	},
	{
		Name: "nobody checks", Page: "trouble", Note: `^\d+ operations have expired in the last \d\d s, and nobody had checked orders-\d+.* since they were registered: is a CheckAndComplete missing`, After: 24 * time.Second,
		Alerts: []string{"PurgatoryUnchecked"},
		run:    func(s *server) { s.produce(func(_ int, change func(), _ func(key string)) { change() }) },
	},
	{
		Name: "callbacks block", Page: "trouble", Note: `^a method of \*faults.request, key orders-\d+, has been running for [\d.]+s: it blocks`, After: 10 * time.Second,
		Alerts: []string{"PurgatoryCallbackBlocks"},
		run: func(s *server) {
			s.answer = func(partition int) {
				if partition >= partitions/2 { // whose client does not read its answers
					<-s.ctx.Done()
				}
			}
			s.produce(checked)
		},
	},
	{
		Name: "one callback blocks", Page: "look", Note: `^at every look in the last minute at least 1 callback ran, and few operations ended: does one block`, After: 75 * time.Second,
		Alerts: []string{"PurgatoryCallbacksAlwaysRun"},
		run: func(s *server) {
			var blocked atomic.Bool
			s.answer = func(partition int) {
				if partition == 0 { // whose later answers return
					if blocked.CompareAndSwap(false, true) {
						<-s.ctx.Done()
					}
				}
			}
			s.produce(checked)
		},
	},
	{
		Name: "a follower hangs", Page: "trouble", Note: `^\d+ operations have expired in the last \d\d s, of \d+ that ended, and their conditions were never true: orders-\d+ \(checked \d+ times\)`, After: 24 * time.Second,
		Alerts: []string{"PurgatoryNeverTrue"},
		run: func(s *server) {
			s.produce(func(partition int, change func(), check func(key string)) {
				if partition%3 > 0 { // a third of the partitions waits for the follower that hangs
					change()
				}
				check(key(partition))
			})
		},
	},
	{
		Name: "waits leak", Page: "look", Note: "^pending has grown from", After: 90 * time.Second,
		Alerts: []string{"PurgatoryPilesUp"},
		run: func(s *server) {
			s.produce(checked)
			s.each(500*time.Millisecond, func(n int) { s.submit(&request{ready: never}, purgatory.NoTimeout, fmt.Sprint("lost-", n)) })
		},
	},
}

// Well are servers of four kinds that nothing is wrong with.
var Well = []Server{
	{Name: "produces", run: func(s *server) {
		s.produce(checked)
		// Now and then one expires: its replica was restarted.
		s.each(10*time.Minute, func(int) { s.submit(&request{ready: never}, produceTimeout, "restarted") })
	}},
	{Name: "fetches", opts: expected, run: func(s *server) {
		for partition := range partitions {
			var end atomic.Int64
			s.each(1500*time.Millisecond, func(int) {
				after := end.Load()
				s.submit(&request{ready: func() bool { return end.Load() > after }}, time.Second, key(partition))
			})
			if partition%2 == 0 { // the others have no news
				s.each(700*time.Millisecond, func(int) {
					end.Add(1)
					s.p.CheckAndComplete(key(partition))
				})
			}
		}
	}},
	{Name: "sessions", opts: expected, run: func(s *server) {
		for range 50 {
			var session *request
			s.each(3*time.Second, func(n int) {
				if n%50 == 0 { // one that fell silent, as each does in the end, comes back
					session = &request{ready: never}
					s.submit(session, 10*time.Second, "sessions")
				} else if n%50 < 40 {
					s.p.Extend(session, 10*time.Second)
				}
			})
		}
	}},
	{Name: "long polls", opts: expected, run: func(s *server) {
		for document := range 50 {
			var version atomic.Int64
			s.running.Go(func() {
				for s.ctx.Err() == nil { // a client
					seen := version.Load()
					_ = s.p.Await(s.ctx, 30*time.Second, func() bool { return version.Load() > seen }, key(document))
				}
			})
			if document%10 == 0 { // the others do not change
				s.each(7*time.Second, func(int) {
					version.Add(1)
					s.p.CheckAndComplete(key(document))
				})
			}
		}
	}},
}

var expected = []purgatory.Option{purgatory.WithTimeoutsExpected()}

// Run runs the server until stop, which closes its purgatory, too.
func (s *Server) Run() (p *Purgatory, stop func(), err error) {
	if p, err = purgatory.New[string](s.Name, s.opts...); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	running := &server{p: p, ctx: ctx, answer: func(int) {}}
	s.run(running)
	return p, func() {
		cancel()
		running.running.Wait()
		_ = p.Shutdown(ctx)
		for p.Stats().Running > 0 { // callbacks that have been blocked
			time.Sleep(time.Second)
		}
	}, nil
}

// server is a server that runs.
type server struct {
	p       *Purgatory
	ctx     context.Context // ends with the server
	running sync.WaitGroup
	answer  func(partition int)
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
