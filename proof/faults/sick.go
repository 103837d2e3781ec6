package faults

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/signals"
)

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
	{
		Name: "a tenant floods a line", Page: "trouble", Note: `^full: \d+ requests were refused in the last [\d.]+ (s|min), by WithMaxWaiting`, After: 24 * time.Second,
		Also:   `tenant "flood" has \d\d of the \d\d requests that wait`,
		Alerts: []string{"PurgatoryFull"},
		run:    func(s *server) { s.flood("flood", 60, "quiet", 2) },
	},
}
