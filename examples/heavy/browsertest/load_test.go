package browsertest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// request waits for a position of its partition.
type request struct {
	operation.DelayedOperation
	offset int64
	end    *atomic.Int64
}

func (r *request) TryComplete() bool { return r.end.Load() >= r.offset }
func (r *request) OnComplete()       {}
func (r *request) OnExpiration()     {}

func newPurgatory(t *testing.T, name string, opts ...purgatory.Option) *purgatory.Purgatory[string] {
	t.Helper()
	p, err := purgatory.New[string](name, append(opts, purgatory.WithDiagnostics())...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

// healthy has produces wait for a few milliseconds, until replication comes by.
func healthy(ctx context.Context, p *purgatory.Purgatory[string], running *sync.WaitGroup) {
	for partition := range 12 {
		running.Go(func() {
			end := new(atomic.Int64)
			key := fmt.Sprintf("orders-%d", partition)
			for ctx.Err() == nil {
				for range 1 + rand.IntN(1+partition) {
					offset := end.Load() + 1 + rand.Int64N(3)
					op := &request{offset: offset, end: end}
					_, _ = p.TryCompleteElseWatch(op, 30*time.Second, key)
				}
				time.Sleep(time.Duration(1+rand.IntN(12)) * time.Millisecond)
				end.Add(1)
				p.CheckAndComplete(key)
			}
		})
	}
}

// sick forgets to wake one key, and wakes another for nothing.
func sick(ctx context.Context, p *purgatory.Purgatory[string], running *sync.WaitGroup) {
	running.Go(func() {
		never := new(atomic.Int64)
		for ctx.Err() == nil {
			op := &request{offset: 1, end: never}
			_, _ = p.TryCompleteElseWatch(op, 1500*time.Millisecond, "audit-0")
			op = &request{offset: 1 << 40, end: never}
			_, _ = p.TryCompleteElseWatch(op, 20*time.Second, "payments-7", "payments-8")
			p.CheckAndComplete("payments-7")
			time.Sleep(15 * time.Millisecond)
		}
	})
}
