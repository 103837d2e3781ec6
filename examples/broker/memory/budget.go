// Package memory keeps count of the bytes that a broker holds for its clients, so
// that no number of them can make it hold more than it was given.
package memory

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/delayedop/purgatory/purgatory"
)

// Waits is a purgatory for those who wait until a budget has room.
type Waits = purgatory.DelayedOperationPurgatory[string]

// Budget is a number of bytes that many share. Safe for concurrent use. A nil
// Budget has room for everything.
type Budget struct {
	name  string
	limit int64
	used  atomic.Int64
	waits *Waits // nil where nobody waits
}

// New makes a budget of limit bytes. The name is what the debug page shows of who
// waits for it; waits may be nil if nobody calls Await.
func New(name string, limit int, waits *Waits) *Budget {
	return &Budget{name: name, limit: int64(limit), waits: waits}
}

// Limit is what the budget was made with.
func (b *Budget) Limit() int64 { return b.limit }

// Used is how many bytes are taken now.
func (b *Budget) Used() int64 { return b.used.Load() }

// Take takes n bytes, or none: false says that there is no room for all of them.
func (b *Budget) Take(n int) bool { return n <= 0 || b.upTo(n, n) == n }

// TakeUpTo takes as many of n bytes as there is room for.
func (b *Budget) TakeUpTo(n int) int { return b.upTo(1, n) }

// upTo takes n bytes or the rest, at least the least or none.
func (b *Budget) upTo(least, n int) int {
	if b == nil {
		return n
	}
	for {
		used := b.used.Load()
		taken := min(n, int(b.limit-used))
		if taken < least {
			return 0
		}
		if b.used.CompareAndSwap(used, used+int64(taken)) {
			return taken
		}
	}
}

// Force takes n bytes, room or not: they are held already.
func (b *Budget) Force(n int) {
	if b != nil {
		b.used.Add(int64(n))
	}
}

// Free gives n bytes back, to those who wait for them first.
func (b *Budget) Free(n int) {
	if b == nil || n == 0 {
		return
	}
	b.used.Add(int64(-n))
	if b.waits != nil {
		b.waits.CheckAndComplete(b.name)
	}
}

// Await takes n bytes as soon as there is room for them. An error says that none
// were taken: the timeout has passed, ctx has ended, or the purgatory has closed.
func (b *Budget) Await(ctx context.Context, timeout time.Duration, n int) error {
	if b.Take(n) {
		return nil
	}
	return b.waits.Await(ctx, timeout, func() bool { return b.Take(n) }, b.name)
}
