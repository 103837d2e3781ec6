package purgatory_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// wal is a write-ahead log that calls back when a position is durable. The callbacks run one at a time, on a
// goroutine of the purgatory and never on one that registers, in order of position. So a callback may take a lock
// that a goroutine holds while it registers, and needs none of its own against other callbacks.
//
//   - One signal worker runs them all, whoever ends a wait.
//   - TryComplete says yes on that worker only, and so in order of position: a wait that says yes to the goroutine that
//     registers it would overtake those that a signal is about to end.
//   - SignalUpTo names only what is durable. So a check finds no wait that says no before one that says yes.
//   - There is no Close, which runs callbacks on the goroutine that calls it.
type wal struct {
	waits   *purgatory.Purgatory[struct{}]
	durable atomic.Int64
	mu      sync.Mutex // for the order of registrations
}

func newWAL() (*wal, error) {
	p, err := purgatory.New[struct{}]("wal", purgatory.WithSignalWorkers(1), purgatory.WithCallbacksOnWorkers())
	return &wal{waits: p}, err
}

// whenDurable has callback called when position is durable, or with an error when the log closes before. If it
// returns an error, callback is not called.
func (l *wal) whenDurable(position int64, callback func(error)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.whenDurableLocked(position, callback)
}

func (l *wal) whenDurableLocked(position int64, callback func(error)) error {
	w := &durableWait{log: l, position: position, callback: callback}
	at := purgatory.KeyPosition[struct{}]{Position: position}
	if _, err := l.waits.TryCompleteElseWatchAt(w, purgatory.NoTimeout, at); err != nil {
		return err
	}
	if w.second.Swap(true) {
		return w.err() // the log has closed during the registration
	}
	if durable := l.durable.Load(); durable >= position {
		l.waits.SignalUpTo(struct{}{}, durable) // a check may have come too early
	}
	return nil
}

// flushed is called, by one goroutine, when the log is durable up to position.
func (l *wal) flushed(position int64) {
	l.durable.Store(position)
	l.waits.SignalUpTo(struct{}{}, position)
}

type durableWait struct {
	operation.DelayedOperation
	log      *wal
	position int64
	callback func(error)
	second   atomic.Bool // set by the end of the registration and by OnComplete: whoever comes second answers
}

func (w *durableWait) TryComplete() bool {
	return w.second.Load() && w.log.durable.Load() >= w.position
}
func (w *durableWait) OnExpiration() {}

func (w *durableWait) OnComplete() {
	if w.second.Swap(true) {
		w.callback(w.err())
	}
}

func (w *durableWait) err() error {
	if w.Outcome() == operation.Satisfied {
		return nil
	}
	return errors.New("the log has closed")
}

// Callbacks of a log in order of position, one at a time, and never on the goroutine that registers them.
func ExampleWithCallbacksOnWorkers_serial() {
	l, err := newWAL()
	if err != nil {
		panic(err)
	}
	report := func(position int64) func(error) {
		return func(err error) { fmt.Println(position, err) }
	}
	for _, position := range []int64{3, 9, 1, 2} {
		_ = l.whenDurable(position, report(position))
	}
	l.flushed(2)
	_ = l.whenDurable(2, report(2)) // it is durable already
	reached := make(chan struct{})
	_ = l.whenDurable(3, func(error) { close(reached) })
	l.flushed(3)
	<-reached

	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_ = l.waits.Shutdown(ended) // answers the others
	fmt.Println("refused:", l.whenDurable(3, report(3)) != nil)
	// Output:
	// 1 <nil>
	// 2 <nil>
	// 2 <nil>
	// 3 <nil>
	// 9 the log has closed
	// refused: true
}
