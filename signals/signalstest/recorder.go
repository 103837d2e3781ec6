package signalstest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/delayedop/purgatory/signals"
)

// recorder is the Waiters of a Runner: it records the keys that the Runner signals, and its
// re-checks. Nothing waits in it.
type recorder[K comparable] struct {
	block     chan struct{} // if it is not nil, a hint waits until it is closed
	onRecheck func()        // if it is not nil, each re-check calls it

	mu struct {
		sync.Mutex
		calls     int
		changed   map[K]int // by key: the number of its last hint
		rechecked int       // the number of the last re-check
		rechecks  int
	}
}

func (r *recorder[K]) SignalUpTo(key K, _ int64) (awaited bool) {
	r.mu.Lock()
	r.mu.calls++
	if r.mu.changed == nil {
		r.mu.changed = make(map[K]int)
	}
	r.mu.changed[key] = r.mu.calls
	r.mu.Unlock()
	if r.block != nil {
		<-r.block
	}
	return false
}

func (r *recorder[K]) Keys() iter.Seq[K] {
	r.mu.Lock()
	r.mu.calls++
	r.mu.rechecked = r.mu.calls
	r.mu.rechecks++
	r.mu.Unlock()
	if r.onRecheck != nil {
		r.onRecheck()
	}
	return func(func(K) bool) {}
}

// calls returns the number of calls so far.
func (r *recorder[K]) calls() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.calls
}

func (r *recorder[K]) rechecks() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.rechecks
}

// heard reports whether a hint for key or a re-check was recorded after the given number of calls.
func (r *recorder[K]) heard(key K, after int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.changed[key] > after || r.mu.rechecked > after
}

// changes returns the number of the last hint for key; 0: there was none.
func (r *recorder[K]) changes(key K) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.changed[key]
}

// keepRunning runs sources of e one after the other, and delivers to r, until stop is called or ctx
// ends. Stop waits until the last one has ended.
func keepRunning[K comparable](ctx context.Context, e Engine[K], r *recorder[K]) (runner *signals.Runner[K], stop func(), err error) {
	runner, err = signals.To[K](r, options(nil)...)
	if err != nil {
		return nil, nil, err
	}
	within, cancel := context.WithCancelCause(ctx)
	var done sync.WaitGroup
	done.Go(func() { _ = runner.Run(within, signals.SourceFunc[K](e.run)) })
	return runner, func() { cancel(errOver); done.Wait() }, nil
}

// stands waits until runner's source stands.
func stands[K comparable](ctx context.Context, e Engine[K], runner *signals.Runner[K]) error {
	return await(ctx, e, "the source stands", func() bool { return runner.Stats().Standing })
}

var errPatience = errors.New("did not happen")

// await waits until ok returns true; it fails after e.Patience.
func await[K comparable](ctx context.Context, e Engine[K], what string, ok func() bool) error {
	for deadline := time.Now().Add(e.Patience); !ok(); {
		if time.Now().After(deadline) {
			return fmt.Errorf("%w within %v: %s", errPatience, e.Patience, what)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(200 * time.Microsecond):
		}
	}
	return nil
}
