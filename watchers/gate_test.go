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
	var v Visit
	for i := 1; i <= 3; i++ {
		var inside int
		inside, v = s.Enter(1)
		assert.Equal(t, i, inside)
	}
	assert.Equal(t, 3, w.Unanswered())
	s.Exit(2, v)
	assert.Equal(t, []int{2, 1}, []int{w.Inside(), w.Unanswered()})
	s.Exit(0, v)
	assert.Equal(t, []int{1, 1}, []int{w.Inside(), w.Unanswered()})
	s.Exit(1, v)
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
	_, era := w.Shard(w.Hash(b)).Enter(b)
	w.Shard(w.Hash(b)).Exit(1, era)
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
		_, era := s.Enter(8)
		s.Exit(1, era)
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

// ended has an operation of a key end in s, as the next ones whose callbacks run.
func ended(s *Shard[int], key int) {
	m := newOp(1)
	s.Watch(m, m.First(), &Wait[int]{key, anyPosition, uint64(key)})
	s.lock()
	s.leaveLocked([]*machine.Machine{m})
	s.unlock()
	m.Settle(nil)
}

// A callback that does not return is seen, and named, whatever else begins and returns in its shard.
func TestABlockedCallbackIsSeenBesideOthers(t *testing.T) {
	w := New(Config[int]{Kick: func() {}, Shards: 4})
	blocked := func(now time.Duration) time.Duration { return w.Blocked(now*time.Second, 0).For }
	assert.Zero(t, blocked(1), "no shard is used")
	busy, quiet := w.Shard(0), w.Shard(1)
	ended(busy, 8)
	ended(quiet, 9)
	assert.Zero(t, blocked(2), "nobody is inside")
	_, stays := busy.Enter(8)
	assert.Zero(t, blocked(3), "somebody is inside, since nobody knows when")
	for second := time.Duration(4); second < 10; second++ {
		b := w.Blocked(second*time.Second, 0)
		assert.Equal(t, []any{8, (second - 3) * time.Second, "*watchers.waiter"}, []any{b.Key, b.For, b.Kind.String()})
		ended(busy, 12)
		_, era := busy.Enter(12)
		busy.Exit(1, era)
		busy.lock()
		busy.mu.tries++
		busy.unlock()
	}
	_, other := quiet.Enter(9)
	blocked(10)
	assert.Equal(t, 8*time.Second, blocked(11), "the longest")
	busy.Exit(1, stays)
	assert.Equal(t, time.Second+time.Second, blocked(12), "of the other shard")
	assert.Equal(t, 3*time.Second, w.Blocked(63*time.Second, 50*time.Second).For, "a stall does not count")
	assert.Equal(t, 4*time.Second, blocked(64))
	quiet.Exit(1, other)
	assert.Zero(t, blocked(65))
}

// Callbacks that return are not blocked, though some run at every look.
func TestCallbacksThatReturnAreNotBlocked(t *testing.T) {
	w := New(Config[int]{Kick: func() {}, Shards: 1})
	s := w.Shard(0)
	ended(s, 8)
	_, era := s.Enter(8)
	for second := range time.Duration(100) {
		assert.LessOrEqual(t, w.Blocked(second*time.Second, 0).For, time.Second)
		_, next := s.Enter(8)
		s.Exit(1, era)
		era = next
	}
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
		assert.Zero(t, w.Blocked(second*time.Second, 0).For)
		walk.Next(nil, 1, out, false)
	}
	assert.Zero(t, w.Blocked(10*time.Second, 0).For)
	b := w.Blocked(13*time.Second, 0)
	assert.Equal(t, []any{1, 3 * time.Second}, []any{b.Key, b.For})
	pause(&walk)
	assert.Zero(t, w.Blocked(20*time.Second, 0).For, "nobody tries")
}
