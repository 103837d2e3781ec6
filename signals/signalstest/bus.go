package signalstest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/delayedop/purgatory/signals"
)

// Moment is a point of a subscription to a [Bus].
type Moment int

// Moments, in the order in which a subscription reaches them.
const (
	Connected  Moment = iota // the source is connected, but not subscribed
	Subscribed               // hints arrive, but the source does not take them yet
	Confirmed                // the source has heard itself
	Hearing                  // the source has taken a hint, but not passed it on
)

// ErrCut is the error with which a source of a [Bus] ends at a cut.
var ErrCut = errors.New("signalstest: cut")

// Bus is an engine in memory: a map whose writers send hints to the sources that are
// subscribed at that moment. It loses hints as real engines do: those in a connection's
// queue when the connection is cut, and those that arrive when the queue is full. It is safe
// for concurrent use.
type Bus[K comparable] struct {
	// At, if it is not nil, is called by the sources at each moment of their subscriptions.
	// It may call Cut. Set it before the first use of the Bus.
	At func(Moment)

	depth int // of a connection's queue

	mu struct {
		sync.Mutex
		state    map[K]int64
		position int64
		conns    map[*conn[K]]bool // true: subscribed
		stopped  bool              // nobody can connect
		deaf     bool              // nothing is delivered
	}
}

// conn is a subscriber's connection.
type conn[K comparable] struct {
	hints   chan hint[K]
	cut     chan struct{}
	dropped chan struct{} // capacity 1: a hint was dropped because the queue was full
}

// hint is a hint, or a probe of the subscriber's own.
type hint[K comparable] struct {
	key      K
	position int64
	probe    uint64 // 0: it is a hint
}

// NewBus returns a Bus whose connections queue at most depth hints each.
func NewBus[K comparable](depth int) *Bus[K] {
	b := &Bus[K]{depth: depth}
	b.mu.state = make(map[K]int64)
	b.mu.conns = make(map[*conn[K]]bool)
	return b
}

// Write sets the state of key, and sends a hint.
func (b *Bus[K]) Write(_ context.Context, key K, value int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.state[key] = value
	b.mu.position++
	for c, subscribed := range b.mu.conns {
		if !subscribed || b.mu.deaf {
			continue
		}
		select {
		case c.hints <- hint[K]{key: key, position: b.mu.position}:
		default:
			select {
			case c.dropped <- struct{}{}:
			default:
			}
		}
	}
	return nil
}

// WriteSilently sets the state of key without a hint, like a writer that dies between the two.
func (b *Bus[K]) WriteSilently(key K, value int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.state[key] = value
}

// Read returns the state of key.
func (b *Bus[K]) Read(_ context.Context, key K) (int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.state[key], nil
}

// Cut breaks every connection, and drops the hints in their queues.
func (b *Bus[K]) Cut() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := range b.mu.conns {
		close(c.cut)
	}
	clear(b.mu.conns)
}

// Stop breaks every connection, and refuses new ones until Start is called.
func (b *Bus[K]) Stop() { b.stop(true) }

// Start ends what Stop has begun.
func (b *Bus[K]) Start() { b.stop(false) }

func (b *Bus[K]) stop(stopped bool) {
	b.mu.Lock()
	b.mu.stopped = stopped
	b.mu.Unlock()
	if stopped {
		b.Cut()
	}
}

// Deafen has b accept connections and subscriptions, and deliver nothing, until Undeafen is called.
func (b *Bus[K]) Deafen() { b.deafen(true) }

// Undeafen ends what Deafen has begun.
func (b *Bus[K]) Undeafen() { b.deafen(false) }

func (b *Bus[K]) deafen(deaf bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.deaf = deaf
}

// Connections returns the number of connections.
func (b *Bus[K]) Connections() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.mu.conns)
}

func (b *Bus[K]) connect() (*conn[K], error) {
	c := &conn[K]{hints: make(chan hint[K], b.depth), cut: make(chan struct{}), dropped: make(chan struct{}, 1)}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.stopped {
		return nil, fmt.Errorf("%w while connecting", ErrCut)
	}
	b.mu.conns[c] = false
	return c, nil
}

func (b *Bus[K]) subscribe(c *conn[K]) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.mu.conns[c]; !ok {
		return fmt.Errorf("%w while subscribing", ErrCut)
	}
	b.mu.conns[c] = true
	return nil
}

// probe sends a probe to c by the way that hints take. It is lost where they are.
func (b *Bus[K]) probe(c *conn[K], n uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.mu.conns[c] || b.mu.deaf {
		return
	}
	select {
	case c.hints <- hint[K]{probe: n}:
	default:
	}
}

func (b *Bus[K]) disconnect(c *conn[K]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.mu.conns, c)
}

func (b *Bus[K]) at(m Moment) {
	if b.At != nil {
		b.At(m)
	}
}

// Source returns a source that subscribes to b each time it is run, and ends at a cut.
func (b *Bus[K]) Source() signals.Source[K] { return signals.SourceFunc[K](b.run) }

func (b *Bus[K]) run(ctx context.Context, sink signals.Sink[K]) error {
	c, err := b.connect()
	if err != nil {
		return err
	}
	defer b.disconnect(c)
	b.at(Connected)
	if err := b.subscribe(c); err != nil {
		return err
	}
	b.at(Subscribed)
	sink.Subscribed(signals.Subscription{
		Probe: func(_ context.Context, n uint64) error { b.probe(c, n); return nil },
		Every: 50 * time.Millisecond, Limit: time.Second,
	})
	confirmed := false
	for {
		select {
		case h := <-c.hints:
			if h.probe == 0 {
				b.at(Hearing)
				sink.Changed(h.key, h.position)
				continue
			}
			sink.Heard(h.probe)
			if !confirmed {
				confirmed = true
				b.at(Confirmed)
			}
		case <-c.dropped:
			sink.Missed(signals.ErrOverflow)
		case <-c.cut:
			return ErrCut
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Engine describes b to the checks. key returns the i-th of many different keys.
func (b *Bus[K]) Engine(key func(i int) K) Engine[K] {
	return Engine[K]{
		Source: b.Source,
		Key:    key,
		Write:  b.Write,
		Read:   b.Read,
		Cut:    b.Cut,
		Stop:   b.Stop,
		Start:  b.Start,
		// A source of a Bus has no right but to connect.
		Revoke: b.Stop, Restore: b.Start,
		Deafen: b.Deafen, Undeafen: b.Undeafen,
		Elsewhere: []func(context.Context, K, int64) error{b.Write},
		Overflow: func(ctx context.Context, _ func()) error {
			for i := range 2*b.depth + 2 {
				if err := b.Write(ctx, key(i), 1); err != nil {
					return err
				}
			}
			return nil
		},
	}
}
