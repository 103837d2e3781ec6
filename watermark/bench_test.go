package watermark

import (
	"context"
	"sync"
	"testing"

	"github.com/delayedop/purgatory/purgatory"
)

// byHand is a watermark as one writes it: a mutex, and a map with a channel for each position that is waited for.
type byHand struct {
	mu    sync.Mutex
	at    int64
	waits map[int64]*handWait
}

type handWait struct {
	reached chan struct{}
	n       int
}

func (h *byHand) Await(ctx context.Context, position int64) error {
	h.mu.Lock()
	if h.at >= position {
		h.mu.Unlock()
		return nil
	}
	s := h.waits[position]
	if s == nil {
		s = &handWait{reached: make(chan struct{})}
		h.waits[position] = s
	}
	s.n++
	h.mu.Unlock()
	select {
	case <-s.reached:
		return nil
	case <-ctx.Done():
		h.mu.Lock()
		defer h.mu.Unlock()
		if s.n--; s.n == 0 && h.waits[position] == s {
			delete(h.waits, position)
		}
		return context.Cause(ctx)
	}
}

func (h *byHand) Advance(to int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for position, s := range h.waits {
		if position <= to {
			close(s.reached)
			delete(h.waits, position)
		}
	}
	h.at = to
}

// BenchmarkPingPong has one goroutine that waits for the next position, with a context that may end, and one that
// advances to it. Run both in one run, several times: go test -bench PingPong -count 10.
func BenchmarkPingPong(b *testing.B) {
	b.Run("by hand", func(b *testing.B) { pingPong(b, &byHand{waits: make(map[int64]*handWait)}) })
	b.Run("AwaitAt", func(b *testing.B) {
		p, err := purgatory.New[string]("watermarks")
		if err != nil {
			b.Fatal(err)
		}
		defer p.Close()
		pingPong(b, &awaitAt{p: p, w: New(p, "b", 0)})
	})
	b.Run("Watermark", func(b *testing.B) {
		p, err := purgatory.New[string]("watermarks")
		if err != nil {
			b.Fatal(err)
		}
		defer p.Close()
		pingPong(b, patient{New(p, "a", 0)})
	})
}

// awaitAt gives each wait an operation.
type awaitAt struct {
	p *strings
	w *Watermark[string]
}

func (a *awaitAt) Await(ctx context.Context, position int64) error {
	return a.p.AwaitAt(ctx, purgatory.NoTimeout, func() bool { return a.w.Position() >= position }, purgatory.KeyPosition[string]{Key: "b", Position: position})
}

func (a *awaitAt) Advance(to int64) { a.w.Advance(to) }

// patient waits for ever.
type patient struct{ *Watermark[string] }

func (p patient) Await(ctx context.Context, position int64) error {
	return p.Watermark.Await(ctx, purgatory.NoTimeout, position)
}

// mark is what is compared.
type mark interface {
	Await(ctx context.Context, position int64) error
	Advance(to int64)
}

func pingPong(b *testing.B, w mark) {
	b.ReportAllocs()
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	reach := make(chan int64, 1)
	defer close(reach)
	go func() {
		for position := range reach {
			w.Advance(position)
		}
	}()
	position := int64(0)
	for b.Loop() {
		position++
		reach <- position
		if err := w.Await(ctx, position); err != nil {
			b.Fatal(err)
		}
	}
}
