package purgatory_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// meeting is an operation whose OnComplete returns when several of them run at once.
type meeting struct {
	operation.DelayedOperation
	ready *atomic.Bool
	meet  func()
}

func (m *meeting) TryComplete() bool { return m.ready.Load() }
func (m *meeting) OnComplete()       { m.meet() }
func (m *meeting) OnExpiration()     {}

// With WithCallbacksOnWorkers the callbacks of a crowd run on several goroutines at once, and
// the operations have ended when the check returns.
func TestCallbacksOnWorkersRunAtOnce(t *testing.T) {
	const crowd, together = 400, 8
	for name, end := range map[string]func(p *purgatory.DelayedOperationPurgatory[string]) int{
		"CheckAndComplete": func(p *purgatory.DelayedOperationPurgatory[string]) int { return p.CheckAndComplete("a") },
		"CompleteForKey":   func(p *purgatory.DelayedOperationPurgatory[string]) int { return p.CompleteForKey("a") },
		"CancelForKey":     func(p *purgatory.DelayedOperationPurgatory[string]) int { return p.CancelForKey("a", nil) },
	} {
		t.Run(name, func(t *testing.T) {
			p := open[string](t, purgatory.WithCallbacksOnWorkers(), purgatory.WithSignalWorkers(together))
			var ready atomic.Bool
			var all sync.WaitGroup
			var mu sync.Mutex
			there, gate := 0, make(chan struct{})
			meet := func() {
				defer all.Done()
				mu.Lock()
				mine := gate
				if there++; there == together {
					close(gate)
					there, gate = 0, make(chan struct{})
				}
				mu.Unlock()
				<-mine
			}
			all.Add(crowd)
			ops := make([]*meeting, crowd)
			for i := range ops {
				ops[i] = &meeting{ready: &ready, meet: meet}
				_, err := p.TryCompleteElseWatch(ops[i], hour, "a")
				require.NoError(t, err)
			}
			ready.Store(true)
			assert.Equal(t, crowd, end(p))
			for _, o := range ops {
				require.NotEqual(t, operation.Pending, o.Outcome())
			}
			all.Wait()
			require.NoError(t, p.Shutdown(t.Context()))
		})
	}
}
