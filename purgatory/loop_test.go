package purgatory_test

import (
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// looped is an operation of a server that keeps its state on one goroutine, without a lock.
type looped struct {
	operation.DelayedOperation
	state *loop
	at    int
	ended func()
}

type loop struct{ reached, tries int } // only the goroutine of the loop may read and write it

func (o *looped) TryComplete() bool { o.state.tries++; return o.state.reached >= o.at }
func (o *looped) OnComplete()       { o.ended() }
func (o *looped) OnExpiration()     {}

// While one goroutine makes all registrations and checks, only it calls TryComplete, whoever
// else ends the operations. The race detector shows a violation.
func TestOnlyWhoRegistersAndChecksTries(t *testing.T) {
	p := open[int](t, purgatory.WithTick(50*time.Microsecond), purgatory.WithHistograms(), purgatory.WithKeyStats(8))
	const rounds, keys = 5_000, 3
	var state loop
	var pending sync.WaitGroup
	ended := func() { pending.Done() }
	others := make(chan *looped, rounds)
	var enders sync.WaitGroup
	for i := range 3 {
		enders.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 1))
			for o := range others {
				switch r.IntN(5) {
				case 0:
					p.Cancel(o, nil)
				case 1:
					p.ForceComplete(o)
				case 2:
					p.CancelForKey(r.IntN(keys), nil)
				case 3:
					p.Extend(o, time.Duration(r.IntN(2_000_000)))
				case 4:
					_ = p.Stats()
					p.Waiting(r.IntN(keys))
				}
			}
		})
	}
	r := rand.New(rand.NewPCG(7, 7))
	for range rounds { // the goroutine of the loop
		o := &looped{state: &state, at: state.reached + r.IntN(4), ended: ended}
		pending.Add(1)
		_, err := p.TryCompleteElseWatch(o, time.Duration(r.IntN(300_000)), r.IntN(keys), keys+r.IntN(keys))
		require.NoError(t, err)
		others <- o
		state.reached += r.IntN(2)
		p.CheckAndComplete(r.IntN(keys), keys+r.IntN(keys))
	}
	close(others)
	enders.Wait()
	for i, end := range []func(o *looped){ // whichever way the others have ended, these end in each
		func(o *looped) { p.Extend(o, 0) },
		func(o *looped) { p.Cancel(o, nil) },
		func(o *looped) { p.ForceComplete(o) },
	} {
		pending.Add(1)
		o := &looped{state: &state, at: math.MaxInt, ended: ended}
		_, err := p.TryCompleteElseWatch(o, hour, i)
		require.NoError(t, err)
		inBackground(func() { end(o) })()
	}
	eventually(t, func() bool { return p.Stats().Expired > 0 }, "an expiry")
	require.NoError(t, p.Close())
	pending.Wait()
	s := p.Stats()
	assert.GreaterOrEqual(t, state.tries, rounds)
	assert.Positive(t, s.Satisfied)
	assert.Positive(t, s.Expired)
	assert.Positive(t, s.Cancelled)
	assert.Positive(t, s.Forced)
}
