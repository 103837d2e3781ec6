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
	"github.com/delayedop/purgatory/signals"
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
	// After is how soon the page should say so.
	After time.Duration
	// Alerts are those that should fire after twenty minutes.
	Alerts []string
	// Log is the event that should be in the log by then, and Says what it should name; empty: none.
	Log, Says string

	opts []purgatory.Option
	run  func(*server)
}

// Sick are servers with one fault each.
var Sick = []Server{
	{
		Name: "a check is missing", Page: "trouble", Note: `^\d+ operations have expired in the last \d\d s, and nobody had checked orders-\d+.* since they were registered: is a CheckAndComplete missing`, After: 24 * time.Second,
		Alerts: []string{"PurgatoryUnchecked"}, Log: purgatory.EventUnchecked, Says: "orders-",
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
		Alerts: []string{"PurgatoryUnchecked"}, Log: purgatory.EventUnchecked, Says: "orders-",
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
		Alerts: []string{"PurgatoryUnchecked"}, Log: purgatory.EventUnchecked, Says: "orders-",
		run: func(s *server) {
			s.produce(func(_ int, change func(), _ func(key string)) { change() })
			s.submit(&request{ready: func() bool { return true }}, produceTimeout, "met at its registration")
			leaves, leave := context.WithCancel(s.ctx)
			s.running.Go(func() { _ = s.p.Await(leaves, produceTimeout, never, "left early") })
			leave()
		},
	},
	{
		Name: "callbacks block", Page: "trouble", Note: `^a method of \*faults.request, key orders-\d+, has been running for [\dm.]+s: it blocks`, After: 10 * time.Second,
		Alerts: []string{"PurgatoryCallbackBlocks"}, Log: purgatory.EventStuck, Says: "orders-",
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
		Name: "one callback blocks", Page: "trouble", Note: `^a method of \*faults.request, key orders-0, has been running for [\dm.]+s: it blocks`, After: 10 * time.Second,
		Alerts: []string{"PurgatoryCallbackBlocks"}, Log: purgatory.EventStuck, Says: "orders-0",
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
	{
		Name: "checked, never true", Page: "trouble", Note: `^\d+ operations have expired in the last \d\d s, of \d+ that ended, and their conditions were never true: orders-\d+ \(checked \d{3,} times\)`, After: 24 * time.Second,
		Alerts: []string{"PurgatoryNeverTrue"},
		run: func(s *server) {
			s.produce(func(int, func(), func(key string)) {})
			s.each(10*time.Millisecond, func(n int) { s.p.CheckAndComplete(key(n % partitions)) })
		},
	},
	{
		Name: "clients give up", Page: "trouble", Note: `^9\d % of the waits that ended in the last \d\d s were given up, \d+ of \d+: their contexts ended`, After: 24 * time.Second,
		Alerts: []string{"PurgatoryClientsGiveUp"},
		run: func(s *server) {
			var served atomic.Int64
			for partition := range partitions {
				s.each(time.Millisecond, func(int) {
					patient, end := context.WithTimeout(s.ctx, time.Second)
					defer end()
					seen := served.Load()
					_ = s.p.Await(patient, 30*time.Second, func() bool { return served.Load() > seen }, key(partition))
				})
			}
			s.each(16*time.Second, func(int) {
				served.Add(1)
				for partition := range partitions {
					s.p.CheckAndComplete(key(partition))
				}
			})
		},
	},
	{
		Name: "readers give up", Page: "trouble", Note: `^\d+ % of the waits that ended in the last \d\d s were given up, \d+ of \d+: their contexts ended`, After: 24 * time.Second,
		Alerts: []string{"PurgatoryClientsGiveUp"},
		run: func(s *server) {
			for partition := range partitions {
				s.each(time.Millisecond, func(int) {
					patient, end := context.WithTimeout(s.ctx, time.Second)
					defer end()
					_, _ = signals.AwaitRead(patient, s.p, 30*time.Second, func(context.Context) (int, bool, error) { return 0, false, nil }, key(partition))
				})
			}
		},
	},
	{
		Name: "the only checker blocks", Page: "trouble", Note: `^a method of \*faults.request, key orders-7, has been running for [\dm.]+s: it blocks`, After: 24 * time.Second,
		Alerts: []string{"PurgatoryCallbackBlocks"}, Log: purgatory.EventStuck, Says: "orders-7",
		run: func(s *server) {
			changed := make(chan string, 1000)
			var blocked atomic.Bool
			s.answer = func(partition int) {
				if partition == 7 && blocked.CompareAndSwap(false, true) {
					<-s.ctx.Done()
				}
			}
			s.produce(func(partition int, change func(), _ func(key string)) {
				change()
				changed <- key(partition)
			})
			s.running.Go(func() {
				for {
					select {
					case k := <-changed:
						s.p.CheckAndComplete(k)
					case <-s.ctx.Done():
						return
					}
				}
			})
			s.each(time.Second, func(int) { // so that nobody is held up by the full channel
				for blocked.Load() && len(changed) > 0 {
					<-changed
				}
			})
		},
	},
	{
		Name: "expiries block the workers", Page: "trouble", Note: `^a method of \*faults.request, key orders-\d+, has been running for [\dm.]+s: it blocks`, After: 24 * time.Second,
		Alerts: []string{"PurgatoryCallbackBlocks", "PurgatoryExpiriesWait"}, Log: purgatory.EventLate,
		run: func(s *server) {
			s.answer = func(int) { <-s.ctx.Done() }
			s.produce(func(int, func(), func(key string)) {})
		},
	},
	{
		Name: "a panic", Page: "trouble", Note: `^\d+ panics in the last [\d.]+ (s|min) in operations' methods`, After: 24 * time.Second,
		Alerts: []string{"PurgatoryPanics"}, Log: purgatory.EventPanic, Says: "orders-3",
		run: func(s *server) {
			s.answer = func(partition int) {
				if partition == 3 {
					panic("of the fault")
				}
			}
			s.produce(checked)
		},
	},
	{
		Name: "full because of one key", Page: "trouble", Note: `^full: \d+ operations were refused in the last [\d.]+ (s|min), WithMaxPending is 30; most wait for orders-5: \d+ of \d+`, After: 90 * time.Second,
		Alerts: []string{"PurgatoryFull"}, opts: []purgatory.Option{purgatory.WithMaxPending(30)},
		run: func(s *server) {
			s.produce(checked)
			s.each(time.Second, func(int) { s.submit(&request{ready: never}, purgatory.NoTimeout, key(5)) })
		},
	},
	{
		Name: "a watermark stands still", Page: "trouble", Note: `^100 % of the waits that ended in the last \d\d s have expired, \d+ of \d+: does the position rise`, After: 24 * time.Second,
		Alerts: []string{"PurgatoryNeverTrue"},
		run:    func(s *server) { s.crowd(200, 5*time.Second) },
	},
	{
		Name: "a line stands still", Page: "trouble", Note: `^the line stands still: 10 requests wait, the longest for [\dms.]+, nothing was handed over, and \d+ were refused`, After: 60 * time.Second,
		Alerts: []string{"PurgatoryFull"},
		run: func(s *server) {
			s.takeSlots(func() {}) // nobody puts back
		},
	},
}

// Well are servers that nothing is wrong with.
var Well = []Server{
	{Name: "idle", run: func(*server) {}},
	{Name: "callbacks of 5 ms", run: func(s *server) {
		for k := range 4 { // of which some run at nearly every look
			s.running.Go(func() {
				for s.ctx.Err() == nil {
					s.submit(&request{ready: never, answer: func() { time.Sleep(5 * time.Millisecond) }}, time.Minute, key(k))
					s.p.CheckAndComplete(key(k))
					s.p.CancelForKey(key(k), nil)
					time.Sleep(time.Millisecond)
				}
			})
		}
	}},
	{Name: "reads", run: func(s *server) {
		for document := range 10 {
			var version atomic.Int64
			s.running.Go(func() {
				for s.ctx.Err() == nil {
					seen := version.Load()
					_, _ = signals.AwaitRead(s.ctx, s.p, 30*time.Second, func(context.Context) (int64, bool, error) {
						v := version.Load()
						return v, v > seen+3, nil // most reads find that there is not enough yet
					}, key(document))
				}
			})
			s.each(2*time.Second, func(int) {
				version.Add(1)
				s.p.CheckAndComplete(key(document))
			})
		}
	}},
	{Name: "a watermark's crowd", run: func(s *server) {
		s.crowd(200, 30*time.Second)
		s.each(time.Second, func(n int) { s.mark.Advance(int64(n)) })
	}},
	{Name: "a line of slots", run: func(s *server) { s.takeSlots(func() { _ = s.line.PutBack(0) }) }},
	{Name: "clients reconnect", run: func(s *server) {
		var news atomic.Int64
		s.produce(checked)
		s.each(3*time.Minute, func(n int) { // all of them at once, and they stay for two minutes
			if n > 0 {
				for client := range 2000 {
					s.submit(&request{ready: func() bool { return news.Load() == int64(n) }}, 3*time.Minute, fmt.Sprint("client-", client))
				}
				s.running.Go(func() {
					select {
					case <-time.After(2 * time.Minute):
						news.Store(int64(n))
						for client := range 2000 {
							s.p.CheckAndComplete(fmt.Sprint("client-", client))
						}
					case <-s.ctx.Done():
					}
				})
			}
		})
	}},
	{Name: "some clients leave", run: func(s *server) {
		var served atomic.Int64
		for client := range 20 {
			s.running.Go(func() {
				for s.ctx.Err() == nil {
					patient, end := s.ctx, context.CancelFunc(func() {})
					if client%4 == 0 { // leaves, and comes back
						patient, end = context.WithTimeout(s.ctx, 700*time.Millisecond)
					}
					seen := served.Load()
					_ = s.p.Await(patient, 30*time.Second, func() bool { return served.Load() > seen }, key(client))
					end()
				}
			})
		}
		s.each(time.Second, func(int) {
			served.Add(1)
			for client := range 20 {
				s.p.CheckAndComplete(key(client))
			}
		})
	}},
	{Name: "produces", opts: []purgatory.Option{purgatory.WithMaxPending(50)}, run: func(s *server) {
		s.produce(checked)
		// Now and then one expires: its replica was restarted.
		s.each(10*time.Minute, func(int) {
			s.submit(&request{ready: never}, produceTimeout, "restarted")
			s.p.CheckAndComplete("restarted")
		})
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
