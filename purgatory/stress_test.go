package purgatory_test

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/timer"
)

// stressed is an operation that reports violations of the contract.
type stressed struct {
	operation.DelayedOperation
	s         *stress
	met       atomic.Bool
	inside    bool // without a lock: the race detector sees an overlap
	completed int
	expired   int
	again     bool // OnComplete submits another operation
	slow      bool
}

func (o *stressed) TryComplete() bool {
	o.enter("TryComplete")
	defer o.leave()
	if o.completed > 0 {
		o.s.broken("TryComplete after OnComplete")
	}
	if o.slow {
		runtime.Gosched()
	}
	return o.met.Load()
}

func (o *stressed) OnComplete() {
	o.enter("OnComplete")
	defer o.leave()
	if o.completed++; o.completed > 1 {
		o.s.broken("OnComplete twice")
	}
	if o.Outcome() == operation.Pending {
		o.s.broken("OnComplete of a pending operation")
	}
	o.s.ended[o.Outcome()].Add(1)
	if o.again {
		o.s.submit(&stressed{s: o.s}, time.Millisecond, 0)
		o.s.p.Signal(1)
		o.s.p.CheckAndComplete(2)
	}
}

func (o *stressed) OnExpiration() {
	o.enter("OnExpiration")
	defer o.leave()
	if o.expired++; o.completed != 1 || o.Outcome() != operation.Expired || o.expired != 1 {
		o.s.broken("OnExpiration out of place")
	}
}

func (o *stressed) enter(what string) {
	if o.inside {
		o.s.broken(what + " overlaps")
	}
	o.inside = true
}

func (o *stressed) leave() { o.inside = false }

type stress struct {
	p        *intPurgatory
	accepted atomic.Int64
	ended    [operation.NumOutcomes]atomic.Int64
	mu       sync.Mutex
	faults   map[string]int
}

func (s *stress) broken(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults[what]++
}

func (s *stress) submit(o *stressed, timeout time.Duration, keys ...int) {
	if _, err := s.p.TryCompleteElseWatch(o, timeout, keys...); err == nil {
		s.accepted.Add(1)
	} else if !errors.Is(err, purgatory.ErrClosed) {
		s.broken(err.Error())
	}
}

func TestStressConservesOperationsAndEndsEachOnce(t *testing.T) {
	const keys, goroutines, rounds = 5, 6, 1500
	for name, opts := range map[string][]purgatory.Option{
		"one shard":    {purgatory.WithWatcherShards(1), purgatory.WithTimerOptions(timer.WithShards(1)), purgatory.WithTimerOptions(timer.WithWheelSize(2))},
		"few shards":   {purgatory.WithWatcherShards(4), purgatory.WithPurgeInterval(3), purgatory.WithReapInterval(time.Millisecond)},
		"as delivered": nil,
	} {
		t.Run(name, func(t *testing.T) {
			p, err := purgatory.New[int]("stress", append(opts, purgatory.WithTick(50*time.Microsecond), purgatory.WithExpiryWorkers(3))...)
			require.NoError(t, err)
			s := &stress{p: p, faults: map[string]int{}}
			var wg sync.WaitGroup
			for g := range goroutines {
				wg.Go(func() {
					rng := rand.New(rand.NewPCG(uint64(g), 7))
					var mine []*stressed
					for i := range rounds {
						o := &stressed{s: s, again: i%7 == 0, slow: i%3 == 0}
						mine = append(mine, o)
						timeout := []time.Duration{0, 50 * time.Microsecond, time.Millisecond, hour}[rng.IntN(4)]
						if rng.IntN(3) == 0 {
							if _, err := p.TryCompleteElseWatchAt(o, timeout, purgatory.KeyPosition[int]{Key: rng.IntN(keys), Position: rng.Int64N(1000)},
								purgatory.KeyPosition[int]{Key: rng.IntN(keys), Position: purgatory.AnyPosition}); err == nil {
								s.accepted.Add(1)
							}
						} else {
							s.submit(o, timeout, []int{rng.IntN(keys), rng.IntN(keys), 100 + i%50}[:1+rng.IntN(3)]...)
						}
						other := mine[rng.IntN(len(mine))]
						switch rng.IntN(10) {
						case 0, 1:
							other.met.Store(true)
							p.CheckAndComplete(rng.IntN(keys))
						case 2:
							other.met.Store(true)
							p.CheckAndCompleteUpTo(rng.IntN(keys), rng.Int64N(1000))
						case 3:
							p.Signal(rng.IntN(keys))
						case 4:
							p.SignalUpTo(rng.IntN(keys), rng.Int64N(1000))
						case 5:
							p.ForceComplete(other)
						case 6:
							if p.Cancel(other, errGone) && !errors.Is(other.Cause(), errGone) {
								s.broken("the cause is lost")
							}
						case 7:
							if rng.IntN(40) == 0 {
								p.CancelForKey(rng.IntN(keys), errGone)
							}
						case 8:
							p.Extend(other, time.Duration(rng.IntN(200))*time.Microsecond)
						case 9:
							_ = p.Stats()
						}
					}
				})
			}
			closing := inBackground(func() {
				for s.accepted.Load() < goroutines*rounds*9/10 {
					runtime.Gosched()
					time.Sleep(100 * time.Microsecond)
				}
				assert.NoError(t, p.Close())
			})
			wg.Wait()
			closing()
			require.NoError(t, p.Shutdown(aWhile(t)))
			assert.Empty(t, s.faults)
			total := int64(0)
			stats := conserved(t, p)
			for o := range operation.Outcome(operation.NumOutcomes) {
				total += s.ended[o].Load()
				if o != operation.Pending {
					assert.Equal(t, s.ended[o].Load(), stats.Ended(o), o.String())
				}
			}
			assert.Equal(t, s.accepted.Load(), total, "one OnComplete for each that was accepted")
			assert.Equal(t, s.accepted.Load(), stats.Accepted)
			assert.Equal(t, []int64{0, 0, 0, 0}, []int64{stats.Pending, stats.Watched, stats.Keys, stats.Stale})
		})
	}
}
