package recipes

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/delayedop/purgatory/purgatory"
)

var errLate = errors.New("no newer version in time")

// byChannel has a channel for each request that waits for a document.
type byChannel struct {
	mu      sync.Mutex
	version map[string]int
	waiting map[string][]chan struct{}
}

func (d *byChannel) await(ctx context.Context, id string, seen int, timeout time.Duration) (int, error) {
	late := time.NewTimer(timeout)
	defer late.Stop()
	for {
		d.mu.Lock()
		if v := d.version[id]; v > seen {
			d.mu.Unlock()
			return v, nil
		}
		changed := make(chan struct{})
		d.waiting[id] = append(d.waiting[id], changed)
		d.mu.Unlock()
		select {
		case <-changed:
		case <-late.C: // the channel stays in the map until the next change
			return 0, errLate
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

func (d *byChannel) change(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.version[id]++
	for _, changed := range d.waiting[id] {
		close(changed)
	}
	delete(d.waiting, id)
}

// byKey has a wait for each request, under the document's id.
type byKey struct {
	mu      sync.Mutex
	version map[string]int
	waiting *purgatory.Purgatory[string]
}

func (d *byKey) await(ctx context.Context, id string, seen int, timeout time.Duration) (int, error) {
	return purgatory.AwaitValue(ctx, d.waiting, timeout, func() (int, bool) {
		d.mu.Lock()
		defer d.mu.Unlock()
		v := d.version[id]
		return v, v > seen
	}, id)
}

func (d *byKey) change(id string) {
	d.mu.Lock()
	d.version[id]++
	d.mu.Unlock()                  // the conditions take it
	d.waiting.CheckAndComplete(id) // after the change
}
