package purgatories

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/delayedop/purgatory/purgatory"
)

// Waits is a peer of the blocking waits: a goroutine that is there anyway waits for its condition.
type Waits interface {
	Await(ctx context.Context, timeout time.Duration, ready func() bool, key string) error
	Check(key string)
	Waiting() int
	Close()
}

// WaitsPeer names a peer and makes a fresh one.
type WaitsPeer struct {
	Name string
	New  func() Waits
}

// HandWritten names the wait that people write themselves, of what the standard library has.
const HandWritten = "std-chan+newtimer"

// WaitsPeers lists the blocking waits that are compared.
func WaitsPeers() []WaitsPeer {
	return []WaitsPeer{
		{Ours, func() Waits { return &oursWaits{*newOurs().(*ours)} }},
		{HandWritten, func() Waits { return &handWaits{broadcast: map[string]chan struct{}{}} }},
	}
}

type oursWaits struct{ ours }

func (w *oursWaits) Await(ctx context.Context, timeout time.Duration, ready func() bool, key string) error {
	return w.purgatory.Await(ctx, timeout, ready, key)
}

func (w *oursWaits) Waiting() int { return w.Pending() }

// handWaits is a map of broadcast channels under a mutex; who waits makes a timer and selects.
type handWaits struct {
	mu        sync.Mutex
	broadcast map[string]chan struct{}
	waiting   atomic.Int64
}

var errTimeout = errors.New("timed out")

func (w *handWaits) Await(ctx context.Context, timeout time.Duration, ready func() bool, key string) error {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	for {
		w.mu.Lock()
		ch := w.broadcast[key]
		if ch == nil {
			ch = make(chan struct{})
			w.broadcast[key] = ch
		}
		w.mu.Unlock()
		if ready() {
			return nil
		}
		w.waiting.Add(1)
		select {
		case <-ch:
			w.waiting.Add(-1)
		case <-timer.C:
			w.waiting.Add(-1)
			return errTimeout
		case <-ctx.Done():
			w.waiting.Add(-1)
			return context.Cause(ctx)
		}
	}
}

func (w *handWaits) Check(key string) {
	w.mu.Lock()
	ch := w.broadcast[key]
	delete(w.broadcast, key)
	w.mu.Unlock()
	if ch != nil {
		close(ch)
	}
}

func (w *handWaits) Waiting() int { return int(w.waiting.Load()) }
func (w *handWaits) Close()       {}

// Ordered is what a peer has that knows positions.
type Ordered interface {
	SubmitAt(l *Lane, timeout time.Duration, key string, position int64)
	CheckUpTo(key string, position int64)
}

func (p *ours) SubmitAt(l *Lane, timeout time.Duration, key string, position int64) {
	op := &laneOp{lane: l}
	at := purgatory.KeyPosition[string]{Key: key, Position: position}
	if _, err := p.purgatory.TryCompleteElseWatchAt(op, timeout, at); err != nil {
		panic(err)
	}
}

func (p *ours) CheckUpTo(key string, position int64) {
	p.purgatory.CheckAndCompleteUpTo(key, position)
}

// Deferred is what a peer has that checks later.
type Deferred interface {
	Signal(key string)
	// Signalled returns how many signals there were, and how many checks they became.
	Signalled() (signals, checks int64)
}

func (p *ours) Signal(key string) { p.purgatory.Signal(key) }

func (p *ours) Signalled() (signals, checks int64) {
	s := p.purgatory.Stats()
	return s.Signals, s.Signals - s.Coalesced
}

// Extending is what a peer has whose deadlines move.
type Extending interface {
	Extend(op Operation, timeout time.Duration) bool
}

func (p *ours) Extend(op Operation, timeout time.Duration) bool {
	return p.purgatory.Extend(op.(*laneOp), timeout)
}
