package signalstest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/delayedop/purgatory/signals"
)

// recorder is a sink that records its calls.
type recorder[K comparable] struct {
	block chan struct{} // if it is not nil, Changed waits until it is closed
	onGap func()        // if it is not nil, Missed calls it

	mu struct {
		sync.Mutex
		calls   int
		changed map[K]int // by key: the number of the last call of Changed
		missed  int       // the number of the last call of Missed
		gaps    []error   // the causes of Missed
		first   error     // not nil: Changed was called before Missed
		over    bool      // there must be no more calls
		late    int       // calls after over was set
	}
}

func newRecorder[K comparable]() *recorder[K] {
	r := &recorder[K]{}
	r.mu.changed = make(map[K]int)
	return r
}

func (r *recorder[K]) Changed(key K, _ int64) {
	r.mu.Lock()
	r.countLocked()
	if len(r.mu.gaps) == 0 && r.mu.first == nil {
		r.mu.first = fmt.Errorf("Changed(%v) came before the first Missed", key)
	}
	r.mu.changed[key] = r.mu.calls
	r.mu.Unlock()
	if r.block != nil {
		<-r.block
	}
}

func (r *recorder[K]) Missed(cause error) {
	r.mu.Lock()
	r.countLocked()
	r.mu.gaps = append(r.mu.gaps, cause)
	r.mu.missed = r.mu.calls
	r.mu.Unlock()
	if r.onGap != nil {
		r.onGap()
	}
}

func (r *recorder[K]) countLocked() {
	r.mu.calls++
	if r.mu.over {
		r.mu.late++
	}
}

// calls returns the number of calls so far.
func (r *recorder[K]) calls() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.calls
}

func (r *recorder[K]) gaps() []error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.gaps
}

// heard reports whether a hint for key or a gap was recorded after the given number of calls.
func (r *recorder[K]) heard(key K, after int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.changed[key] > after || r.mu.missed > after
}

// changes returns the number of the last call of Changed for key; 0: there was none.
func (r *recorder[K]) changes(key K) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.changed[key]
}

// keepRunning runs sources of e one after the other, until stop is called or ctx ends. Stop
// waits until the last one has ended.
func keepRunning[K comparable](ctx context.Context, e Engine[K], sink signals.Sink[K]) (stop func()) {
	within, cancel := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() {
		for within.Err() == nil {
			_ = e.Source().Run(within, sink)
			select {
			case <-within.Done():
			case <-time.After(time.Millisecond):
			}
		}
	})
	return func() { cancel(); done.Wait() }
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
