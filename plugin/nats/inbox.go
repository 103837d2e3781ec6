package nats

import (
	"fmt"
	"sync"

	"github.com/delayedop/purgatory/signals"
)

// maxKeys is how many keys wait for the sink before they are dropped. A key that changes
// again while it waits takes no more room. It is a variable for the tests.
var maxKeys = 1 << 16

// inbox holds what a subscription has heard until the source takes it. The client's goroutine
// fills it, and so never waits for the sink.
type inbox struct {
	ready chan struct{} // capacity 1: something has been heard

	mu struct {
		sync.Mutex
		hints []hint
		at    map[string]int // by key: the index in hints
		lost  error          // not nil: something may have been lost
		probe uint64         // the last that has come back; 0: none since the source has taken notice
	}
}

type hint struct {
	key      string
	position int64
}

func newInbox() *inbox { return &inbox{ready: make(chan struct{}, 1)} }

// wake tells the source that something has been heard.
func (b *inbox) wake() {
	select {
	case b.ready <- struct{}{}:
	default:
	}
}

// put adds a hint. A key that waits already gets the higher position. After a loss put drops
// hints until the source has taken notice, because it then says Missed, or subscribes again.
func (b *inbox) put(key string, position int64) {
	defer b.wake()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.lost != nil {
		return
	}
	if i, ok := b.mu.at[key]; ok {
		b.mu.hints[i].position = max(b.mu.hints[i].position, position)
		return
	}
	if len(b.mu.hints) == maxKeys {
		b.mu.lost = fmt.Errorf("%w: more than %d keys waited", signals.ErrOverflow, maxKeys)
		return
	}
	if b.mu.at == nil {
		b.mu.at = make(map[string]int)
	}
	b.mu.at[key] = len(b.mu.hints)
	b.mu.hints = append(b.mu.hints, hint{key, position})
}

// lose notes that something may have been lost.
func (b *inbox) lose(cause error) {
	defer b.wake()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.lost = cause
}

// hear notes that a probe has come back.
func (b *inbox) hear(probe uint64) {
	defer b.wake()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.probe = probe
}

// take returns and removes the hints, the probe that has come back, and why something may have been lost.
func (b *inbox) take() (hints []hint, probe uint64, lost error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	hints, probe, lost = b.mu.hints, b.mu.probe, b.mu.lost
	b.mu.hints, b.mu.at, b.mu.probe, b.mu.lost = nil, nil, 0, nil
	return hints, probe, lost
}

// passTo passes on to sink what has been heard, and returns why something may have been lost.
func (b *inbox) passTo(sink signals.Sink[string]) (last int64, lost error) {
	hints, probe, lost := b.take()
	for _, h := range hints {
		sink.Changed(h.key, h.position)
		last = max(last, h.position)
	}
	if probe > 0 {
		sink.Heard(probe)
	}
	return last, lost
}
