package watchers

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/internal/machine"
)

// Enter returns how many are inside. The count of answered operations wraps around, and does not change that of those inside.
func TestAGateCountsWhoIsInside(t *testing.T) {
	w := New(Config[int]{Kick: func() {}, Shards: 1})
	s := w.Shard(0)
	s.gate.Store(uint64(answeredMax-1) << insideBits)
	s.mu.accepted = answeredMax + 2
	assert.Equal(t, []int{1, 2, 3}, []int{s.Enter(), s.Enter(), s.Enter()})
	assert.Equal(t, 3, w.Unanswered())
	s.Exit(2)
	assert.Equal(t, []int{2, 1}, []int{w.Inside(), w.Unanswered()})
	s.Exit(0)
	assert.Equal(t, []int{1, 1}, []int{w.Inside(), w.Unanswered()})
	s.Exit(1)
	assert.Equal(t, []int{0, 0}, []int{w.Inside(), w.Unanswered()})
}

func TestUnansweredIsWhatWasAcceptedAndHasNoAnswer(t *testing.T) {
	w := newMap(10)
	a, b := twoKeys(w)
	assert.Zero(t, w.Unanswered(), "nothing was accepted")
	m := wait(t, w, a, b)
	assert.Equal(t, 1, w.Unanswered(), "it waits")
	end(w, b, m)
	assert.Equal(t, 1, w.Unanswered(), "it has ended, and is not answered")
	w.Shard(w.Hash(b)).Enter()
	w.Shard(w.Hash(b)).Exit(1)
	assert.Zero(t, w.Unanswered())
	require.True(t, w.Shard(w.Hash(a)).Pass(machine.Satisfied))
	assert.Equal(t, 1, w.Unanswered(), "whoever did not wait is to be answered, too")
}

// Several goroutines accept, end and answer operations. At every moment at least one is accepted and not answered: each goroutine
// accepts the next one before it answers its own.
func TestUnansweredIsNeverZeroTooEarly(t *testing.T) {
	w := New(Config[int]{Kick: func() {}, Shards: 64})
	batons := make(chan *machine.Machine, 1)
	accept := func(r *rand.Rand) *machine.Machine {
		key := r.IntN(1000)
		return wait(t, w, key, key+1000, key+2000)
	}
	answer := func(r *rand.Rand, m *machine.Machine) {
		key, _, _ := FirstKey[int](m)
		end(w, key+1000*r.IntN(3), m)
		s := w.Shard(uint64(r.IntN(len(w.slots)))) // that in which it ends
		s.Enter()
		s.Exit(1)
	}
	batons <- accept(rand.New(rand.NewPCG(9, 9)))
	var looks atomic.Int64
	var stop atomic.Bool
	var watching, working sync.WaitGroup
	watching.Go(func() {
		for !stop.Load() {
			if w.Unanswered() == 0 {
				t.Error("all is answered, and an operation is not")
				return
			}
			looks.Add(1)
		}
	})
	for i := range uint64(3) {
		working.Go(func() {
			r := rand.New(rand.NewPCG(i, 6))
			for range 500 {
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
	assert.Zero(t, w.Unanswered(), "the last one is answered")
}

// A shard is blocked while somebody is inside, or tries, and nobody has finished.
func TestAShardIsBlockedWhileNobodyFinishes(t *testing.T) {
	w := New(Config[int]{Kick: func() {}, Shards: 4})
	blocked := func(now time.Duration) time.Duration { return w.Blocked(now*time.Second, false).For }
	assert.Zero(t, blocked(1), "no shard is used")
	busy, quiet := w.Shard(0), w.Shard(1)
	for _, s := range []*Shard[int]{busy, quiet} { // somebody has ended there
		m := newOp(1)
		s.Watch(m, m.First(), &Wait[int]{7, anyPosition, 7})
		s.lock()
		s.leaveLocked([]*machine.Machine{m})
		s.unlock()
		m.Settle(nil)
	}
	assert.Zero(t, blocked(2), "nobody is inside")

	quiet.Enter()
	assert.Zero(t, blocked(10), "somebody is inside, since nobody knows when")
	assert.Equal(t, 3*time.Second, blocked(13))
	busy.Enter()
	busy.Exit(5)
	assert.Equal(t, 5*time.Second, blocked(15), "those who finish elsewhere do not make it shorter")
	busy.Enter()
	assert.Equal(t, 8*time.Second, blocked(18), "the longest")
	assert.Equal(t, "*watchers.waiter", w.Blocked(18*time.Second, false).Kind.String())
	quiet.Enter()
	quiet.Exit(1)
	assert.Equal(t, time.Second, blocked(19), "one has finished there, and nobody in the other shard")
	assert.Equal(t, 2*time.Second, blocked(20))
	quiet.Exit(1)
	busy.Exit(1)
	assert.Zero(t, blocked(30))
	busy.Enter()
	assert.Zero(t, blocked(40), "nobody was inside at the last look")
	assert.Zero(t, w.Blocked(time.Minute, true).For, "after a stall nothing is known")
	assert.Equal(t, time.Second, blocked(61))
	busy.Exit(0)
	assert.Zero(t, blocked(70))
}

// A try that blocks, and a walk that goes from one to the next.
func TestAShardIsBlockedByATry(t *testing.T) {
	w := New(Config[int]{Kick: func() {}, Shards: 1})
	for range 100 {
		wait(t, w, 1)
	}
	var walk Walk[int]
	out := begin(w, &walk, 1, everyPosition, 1)
	for second := range time.Duration(10) {
		assert.Zero(t, w.Blocked(second*time.Second, false).For)
		walk.Next(nil, 1, out, false)
	}
	assert.Zero(t, w.Blocked(10*time.Second, false).For)
	b := w.Blocked(13*time.Second, false)
	assert.Equal(t, []any{1, 3 * time.Second}, []any{b.Key, b.For})
	pause(&walk)
	assert.Zero(t, w.Blocked(20*time.Second, false).For, "nobody tries")
}
