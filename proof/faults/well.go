package faults

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/signals"
)

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
