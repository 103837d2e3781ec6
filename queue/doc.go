// Package queue hands items to those who wait for them: jobs to workers, slots to requests, connections to callers.
//
//	slots, err := queue.New[struct{}](queue.WithMaxWaiting(1000))
//	…
//	err = slots.Put(struct{}{}, queue.Place{N: 8}) // eight at a time
//	…
//	if _, err := slots.Take(ctx, 2*time.Second, queue.Place{Tenant: user}); err != nil {
//		return err // full, late, closed, or the client has left
//	}
//	defer slots.Put(struct{}{})
//
// A queue is a line of those who wait, and a line of items that nobody has taken. To wait until a condition is true, as
// for a position in a log, is another problem: see package purgatory.
//
// # Guarantees
//
//   - An item goes to the first in line that still waits, when it is put, under the queue's lock. It is never lost: what
//     was handed over is the taker's, whose error is nil, even if its context ends meanwhile; what nobody has taken stays,
//     or comes back from [Queue.Close].
//   - Nothing goes to those who have left: whose context has ended, whose deadline has passed or whom Stop has ended. Those
//     behind them are served at once.
//   - The order is that of arrival, or by start-time fair queueing between tenants, and by class and arrival within
//     a tenant: see [Place]. A tenant of weight w has w times the share of one of weight 1; one that is idle saves nothing
//     up, and one whose requests leave is charged nothing. If the first in line waits for more units than there are, those
//     behind it wait, too: so nobody starves.
//   - Each request ends once: with an item or an error. Each callback runs once.
//   - No lock is held while user code runs. Take, Result and Shutdown block, the other methods do not, and may be called
//     from any callback.
//
// A request costs O(1), or O(log tenants) where tenants compete. A Take allocates nothing, whether it blocks or not, once
// there was one before.
//
// # Time
//
// Timeouts need a [timer.Timer]; all queues share one, [timer.Shared], that holds no goroutine while nobody waits. In a
// bubble of testing/synctest a queue has a timer of its own. So make a queue in the bubble in which somebody waits: a
// wait in another one panics and says so.
package queue
