package purgatory_test

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// large is an operation that refers to much memory.
type large struct {
	operation.DelayedOperation
	_   [64 << 10]byte
	yes bool
}

func (o *large) TryComplete() bool { return o.yes }

func (o *large) OnComplete() {}

func (o *large) OnExpiration() {}

func TestKAFKA664AQuietKeyKeepsNoEndedOperation(t *testing.T) {
	// The timer does not refer to it either, however late its timeout (KAFKA-19389, KoP #1739).
	clockless := onManualClock[int](t)
	ends := map[string]func(o *large){
		"checked":   func(o *large) { o.yes = true; clockless.CheckAndComplete(1) },
		"forced":    func(o *large) { clockless.ForceComplete(o) },
		"cancelled": func(o *large) { clockless.Cancel(o, errGone) },
		"for key":   func(*large) { clockless.CancelForKey(1, errGone) },
	}
	for name, end := range ends {
		for _, ordered := range []bool{false, true} {
			submitted(t, clockless, 2, 3) // these wait for the quiet keys during the whole test
			ended := func() weak.Pointer[large] {
				o := &large{}
				var err error
				if ordered {
					at := make([]purgatory.KeyPosition[int], 200)
					for i := range at {
						at[i] = purgatory.KeyPosition[int]{Key: 1 + i, Position: int64(i)}
					}
					_, err = clockless.TryCompleteElseWatchAt(o, math.MaxInt64, at...)
				} else {
					_, err = clockless.TryCompleteElseWatch(o, math.MaxInt64, 1, 2, 3, 4, 5, 6, 7)
				}
				require.NoError(t, err)
				end(o)
				require.NotEqual(t, operation.Pending, o.Outcome())
				return weak.Make(o)
			}()
			for range 5 {
				if ended.Value() == nil {
					break
				}
				runtime.GC()
			}
			assert.Nil(t, ended.Value(), "%s, ordered %v: without a purge, and without an event on its keys", name, ordered)
		}
	}
	assert.Equal(t, 8, clockless.NumDelayed())
}

func TestKAFKA1441APurgeVisitsNoPendingOperations(t *testing.T) {
	// In Kafka a purge walked over 340,809 watchers, and nothing expired meanwhile. Here a
	// sweep visits stale watches only, of which there are none, and tries no operation.
	p := onManualClock[int](t)
	for i := range 20_000 {
		submitted(t, p, i%500)
	}
	for range 1000 {
		p.AdvanceClock(0)
	}
	s := p.Stats()
	assert.Zero(t, s.Checks)
	assert.Zero(t, s.Purges)
	assert.EqualValues(t, 20_000, s.Watched)
}

func TestEntriesLeftToThePurgeAreBounded(t *testing.T) {
	// Kafka's purge interval is no bound: millions of stale watchers gathered between two
	// purges, and fewer than the interval stayed for ever.
	const limit = 10
	p := open[int](t, purgatory.WithPurgeInterval(limit), purgatory.WithoutReaper(), purgatory.WithWatcherShards(4))
	var wg sync.WaitGroup
	var most atomic.Int64
	for g := range 4 {
		wg.Go(func() {
			for i := range 1500 {
				o := &op{}
				_, err := p.TryCompleteElseWatch(o, hour, g, 10+i%20, 40+i%20, 70+i%20)
				assert.NoError(t, err)
				p.ForceComplete(o)
				if stale := p.Stats().Stale; stale > most.Load() {
					most.Store(stale)
				}
			}
		})
	}
	wg.Wait()
	assert.LessOrEqual(t, most.Load(), int64(limit+4), "who finds that there is no room has been counted for a moment")
	assert.Zero(t, p.NumDelayed())
	assert.EqualValues(t, p.Stats().Stale, p.Watched())
	empty(t, p) // one sweep takes out all
}
