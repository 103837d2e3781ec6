package watchers

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/internal/machine"
)

func TestAGateReportsWhetherAGoroutineIsInside(t *testing.T) {
	var g Gate
	assert.True(t, g.Enter())
	assert.False(t, g.Enter())
	assert.False(t, g.Enter())
	assert.Equal(t, 3, g.inside())
	g.Exit(2)
	assert.False(t, g.Enter(), "two are inside still")
	g.Exit(1)
	g.Exit(5)
	assert.Equal(t, 1, g.inside())
	g.Exit(0)
	assert.Zero(t, g.inside())
	assert.EqualValues(t, 8, g.answered())
	assert.True(t, g.Enter(), "answers are not taken for people")
}

// The count of answered operations wraps around and does not change the count of open
// entries.
func TestAGatesAnsweredCountMayWrapAround(t *testing.T) {
	var g Gate
	g.state.Store(uint64(answeredMax-1) << insideBits)
	g.Enter()
	assert.Equal(t, uint64(answeredMax-1), g.answered())
	g.Enter()
	g.Exit(3)
	assert.EqualValues(t, 2, g.answered())
	assert.Equal(t, 1, g.inside())
	g.Exit(1)
	assert.EqualValues(t, 3, g.answered())
	assert.Zero(t, g.inside())
	for range 200 { // the count of exits wraps around, too
		g.Enter()
		g.Exit(0)
	}
	assert.EqualValues(t, 3, g.answered())
	assert.Zero(t, g.inside())

	w := newMap(0)
	s := w.Shard(0)
	s.mu.accepted = answeredMax + 2
	s.Gate().Enter()
	s.Gate().Exit(1)
	assert.False(t, w.Quiet())
	s.Gate().Enter()
	s.Gate().Exit(1)
	assert.True(t, w.Quiet())
}

// Of several goroutines that are inside together, the first is alone, and no other.
func TestOnlyTheFirstInsideAGateIsAlone(t *testing.T) {
	var g Gate
	for range 2000 {
		const crowd = 4
		var alone atomic.Int64
		var entered, group sync.WaitGroup
		entered.Add(crowd)
		for range crowd {
			group.Go(func() {
				if g.Enter() {
					alone.Add(1)
				}
				entered.Done()
				entered.Wait()
				g.Exit(1)
			})
		}
		group.Wait()
		require.EqualValues(t, 1, alone.Load())
	}
	assert.Zero(t, g.inside())
	assert.EqualValues(t, 8000, g.answered())
}

func TestManyShardsShareGates(t *testing.T) {
	w := New(Config[int]{Kick: func() {}, Shards: 4 * maxGates})
	gates := map[*Gate]int{}
	for i := range w.slots {
		gates[w.Shard(uint64(i)).Gate()]++
	}
	assert.Len(t, gates, maxGates, "a goroutine stands at so many before one gives it a sign")
	for _, shards := range gates {
		assert.Equal(t, 4, shards)
	}
	few := New(Config[int]{Kick: func() {}, Shards: maxGates})
	for i := range few.slots {
		assert.Same(t, &few.Shard(uint64(i)).ownGate, few.Shard(uint64(i)).Gate(), "no more shards than gates: each has its own")
	}
	last := w.Shard(uint64(len(w.slots) - 1)).Gate()
	last.Enter()
	assert.Equal(t, 1, w.Inside(), "a shared gate counts once")
	last.Exit(0)
	assert.Zero(t, w.Inside())
}

func TestQuietMeansEveryAcceptedOperationIsAnswered(t *testing.T) {
	w := newMap(10)
	a, b := twoKeys(w)
	assert.True(t, w.Quiet(), "nothing was accepted")
	m := wait(t, w, a, b)
	assert.False(t, w.Quiet(), "it waits")
	end(w, b, m)
	assert.False(t, w.Quiet(), "it has ended, and is not answered")
	gate := w.Shard(w.Hash(b)).Gate()
	gate.Enter()
	assert.False(t, w.Quiet())
	assert.Equal(t, 1, w.Inside())
	gate.Exit(1)
	assert.True(t, w.Quiet())
	require.True(t, w.Shard(w.Hash(a)).Pass(machine.Satisfied))
	assert.False(t, w.Quiet(), "whoever did not wait is to be answered, too")
	gate.Enter()
	gate.Exit(1)
	assert.True(t, w.Quiet())
	gate.Enter()
	gate.Exit(0)
	assert.True(t, w.Quiet(), "a check in vain answers nobody")
}

// TestQuietIsNeverReportedTooEarly has operations accepted, ended and answered on several
// goroutines. At every moment at least one operation is accepted and not answered,
// because each goroutine accepts the next one before it answers its own. So Quiet must
// never return true.
func TestQuietIsNeverReportedTooEarly(t *testing.T) {
	w := New(Config[int]{Kick: func() {}, Shards: 64})
	const rounds = 1000
	batons := make(chan *machine.Machine, 1)
	accept := func(r *rand.Rand) *machine.Machine {
		key := r.IntN(1000)
		return wait(t, w, key, key+1000, key+2000)
	}
	answer := func(r *rand.Rand, m *machine.Machine) {
		key, _ := FirstKey[int](m)
		end(w, key+1000*r.IntN(3), m)
		gate := w.Shard(uint64(r.IntN(len(w.slots)))).Gate() // that of the shard in which it ends
		gate.Enter()
		gate.Exit(1)
	}
	batons <- accept(rand.New(rand.NewPCG(9, 9)))
	var looks atomic.Int64
	var stop atomic.Bool
	var watching, working sync.WaitGroup
	watching.Go(func() {
		for !stop.Load() {
			if w.Quiet() {
				t.Error("quiet while an operation was not answered")
				return
			}
			looks.Add(1)
		}
	})
	for i := range uint64(3) {
		working.Go(func() {
			r := rand.New(rand.NewPCG(i, 6))
			for range rounds {
				before := <-batons
				next := accept(r)
				batons <- next
				answer(r, before)
				runtime.Gosched()
			}
		})
	}
	working.Wait()
	for looks.Load() == 0 {
		runtime.Gosched()
	}
	stop.Store(true)
	watching.Wait()
	answer(rand.New(rand.NewPCG(8, 8)), <-batons)
	assert.True(t, w.Quiet(), "the last one is answered")
}
