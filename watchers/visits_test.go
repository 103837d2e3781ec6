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
	"github.com/delayedop/purgatory/internal/sched"
)

// Each visit has a place of its own, which is used again, and knows which. Those that are free are let go of.
func TestAShardCountsWhoIsInside(t *testing.T) {
	w := New(Config[int]{Closed: new(sched.Bool), Kick: func() {}, Now: start, Shards: 1})
	s := w.shard(0)
	s.mu.accepted = 3
	for _, crowd := range []int{3, 2, 17, 1, 2} {
		var visits []*Visit[int]
		for i := range crowd {
			v := w.Enter(Wait[int]{i, 0, 0}, newOp(), false)
			assert.Equal(t, i+1, v.Place)
			visits = append(visits, v)
			checkInvariants(t, w)
		}
		for i := range visits {
			visits[(i+1)%crowd].Exit()
			assert.Equal(t, crowd-i-1, inside(w))
			checkInvariants(t, w)
		}
		totals(w)
		assert.Nil(t, s.mu.visit.next)
		assert.Zero(t, s.mu.visit.Key)
	}
	v := w.Enter(Wait[int]{1, 0, 0}, newOp(), false)
	assert.Equal(t, 3, unanswered(w))
	exit(v, 2)
	assert.Equal(t, []int{0, 1}, []int{inside(w), unanswered(w)})
}

func TestUnansweredIsWhatWasAcceptedAndHasNoAnswer(t *testing.T) {
	w := newMap(10)
	a, b := twoKeys(w)
	assert.Zero(t, unanswered(w), "nothing was accepted")
	m := wait(t, w, a, b)
	assert.Equal(t, 1, unanswered(w), "it waits")
	end(w, b, m)
	assert.Equal(t, 1, unanswered(w), "it has ended, and is not answered")
	exit(w.Enter(w.at(b, 0), m, false), 1)
	assert.Zero(t, unanswered(w))
	w.Early(w.Hash(a), machine.Satisfied)
	assert.Zero(t, unanswered(w), "it has no callbacks")
	v := w.Enter(w.at(a, anyPosition), m, true)
	require.NotNil(t, v)
	assert.Equal(t, []int{1, 1}, []int{v.Place, unanswered(w)}, "whoever did not wait is to be answered, too")
}

// Several goroutines accept, end and answer operations. At every moment at least one is accepted and not answered: each goroutine
// accepts the next one before it answers its own.
func TestUnansweredIsNeverZeroTooEarly(t *testing.T) {
	w := New(Config[int]{Closed: new(sched.Bool), Kick: func() {}, Now: start, Shards: 64})
	batons := make(chan *machine.Machine, 1)
	accept := func(r *rand.Rand) *machine.Machine {
		key := r.IntN(1000)
		return wait(t, w, key, key+1000, key+2000)
	}
	answer := func(r *rand.Rand, m *machine.Machine) {
		key := Waits[int](m)[0].Key
		end(w, key+1000*r.IntN(3), m)
		shard := uint64(r.IntN(len(w.slots))) // that in which it ends
		w.shard(shard)
		exit(w.Enter(Wait[int]{8, 0, shard}, m, false), 1)
	}
	batons <- accept(rand.New(rand.NewPCG(9, 9)))
	var looks atomic.Int64
	var stop atomic.Bool
	var watching, working sync.WaitGroup
	watching.Go(func() {
		for !stop.Load() {
			if unanswered(w) == 0 {
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
	assert.Zero(t, unanswered(w), "the last one is answered")
}

// blocked is what w sees at a time, in seconds, after the process has stalled for a part of them.
func blocked(w *Watchers[int], now, stalled time.Duration) Seen[int] {
	w.config.Now = func() time.Duration { return now * time.Second }
	return w.Totals(stalled * time.Second).Blocked
}

// One that has come during a stall is not taken for one that will come.
func TestAStallIsNoLongerThanWhatItMeets(t *testing.T) {
	w := New(Config[int]{Closed: new(sched.Bool), Kick: func() {}, Now: start, Shards: 4})
	w.shard(0)
	w.Enter(Wait[int]{8, 0, 0}, newOp(), false)
	assert.Zero(t, blocked(w, 1, 0).For)
	assert.Zero(t, blocked(w, 3, 9).For)
	assert.Equal(t, 2*time.Second, blocked(w, 5, 0).For)
}

// A callback that does not return is seen, and named, whatever else begins and returns in its shard.
func TestABlockedCallbackIsSeenBesideOthers(t *testing.T) {
	w := New(Config[int]{Closed: new(sched.Bool), Kick: func() {}, Now: start, Shards: 4})
	assert.Zero(t, blocked(w, 1, 0).For, "no shard is used")
	const busy, quiet = 0, 1
	w.shard(busy)
	w.shard(quiet)
	assert.Zero(t, blocked(w, 2, 0).For, "nobody is inside")
	stays := w.Enter(Wait[int]{8, 0, busy}, newOp(), false)
	assert.Zero(t, blocked(w, 3, 0).For, "somebody is inside, since nobody knows when")
	for second := time.Duration(4); second < 10; second++ {
		b := blocked(w, second, 0)
		assert.Equal(t, []any{8, (second - 3) * time.Second, "*watchers.waiter"}, []any{b.Key, b.For, b.Kind.String()})
		exit(w.Enter(Wait[int]{12, 0, busy}, newOp(), false), 1)
	}
	other := w.Enter(Wait[int]{9, 0, quiet}, newOp(), false)
	blocked(w, 10, 0)
	assert.Equal(t, 8*time.Second, blocked(w, 11, 0).For, "the longest")
	exit(stays, 1)
	assert.Equal(t, 2*time.Second, blocked(w, 12, 0).For, "of the other shard")
	assert.Equal(t, 2*time.Second, blocked(w, 62, 50).For, "a stall does not count")
	assert.Equal(t, 3*time.Second, blocked(w, 63, 0).For)
	exit(other, 1)
	assert.Zero(t, blocked(w, 65, 0).For)
}

// Callbacks that return are not blocked, though some run at every look.
func TestCallbacksThatReturnAreNotBlocked(t *testing.T) {
	w := New(Config[int]{Closed: new(sched.Bool), Kick: func() {}, Now: start, Shards: 1})
	w.shard(0)
	v := w.Enter(Wait[int]{8, 0, 0}, newOp(), false)
	for second := range time.Duration(100) {
		assert.LessOrEqual(t, blocked(w, second, 0).For, time.Second)
		next := w.Enter(Wait[int]{8, 0, 0}, newOp(), false)
		exit(v, 1)
		v = next
	}
}

// A try that blocks, and a walk that goes from one to the next.
func TestAShardIsBlockedByATry(t *testing.T) {
	w := New(Config[int]{Closed: new(sched.Bool), Kick: func() {}, Now: start, Shards: 1})
	for range 100 {
		wait(t, w, 1)
	}
	var walk *Visit[int]
	begin(w, &walk, 1, everyPosition, 1)
	for second := range time.Duration(10) {
		assert.Zero(t, blocked(w, second, 0).For)
		walk.Next(nil, 1, false)
	}
	assert.Zero(t, blocked(w, 10, 0).For)
	b := blocked(w, 13, 0)
	assert.Equal(t, []any{1, 3 * time.Second}, []any{b.Key, b.For})
	for walk.N > 0 {
		walk.Next(nil, 1, false)
	}
	walk.Resume()
	assert.Zero(t, blocked(w, 20, 0).For, "nobody tries")
}
