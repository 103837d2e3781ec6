package watchers

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/internal/stats"
)

// waiter is an operation that is not in a purgatory.
type waiter struct{ machine.Core }

func (*waiter) TryComplete() bool { return false }
func (*waiter) OnComplete()       {}
func (*waiter) OnExpiration()     {}

func newMap(staleLimit int) *Watchers[int] {
	return New(Config[int]{Shards: 8, StaleLimit: staleLimit})
}

// twoKeys returns keys of different shards.
func twoKeys(w *Watchers[int]) (a, b int) {
	for b = 1; w.Shard(w.Hash(a)) == w.Shard(w.Hash(b)); b++ {
	}
	return a, b
}

// wait links a new operation under keys. It returns the operation, which the caller
// holds.
func wait(t *testing.T, w *Watchers[int], keys ...int) *machine.Machine {
	t.Helper()
	op := &waiter{}
	m := machine.Of(op)
	require.True(t, (&machine.Hold{Op: op}).Begin(len(keys), 1))
	for i, key := range keys {
		require.True(t, w.Shard(w.Hash(key)).Watch(m, i, &Wait[int]{key, AnyPosition, w.Hash(key)}))
	}
	return m
}

// end calls Leave as the holder of machines does.
func end(w *Watchers[int], key int, machines ...*machine.Machine) {
	outcomes := make([]machine.Outcome, len(machines))
	for i := range outcomes {
		outcomes[i] = machine.Forced
	}
	s := w.Shard(w.Hash(key))
	s.Leave(&Ending{Machines: machines, Outcomes: outcomes})
	for _, m := range machines {
		m.Settle(machine.Forced, nil)
	}
}

func watched(w *Watchers[int]) (watched, keys int) {
	var t Totals
	for i := range w.shards {
		w.shards[i].Totals(&t)
	}
	return t.Watched, t.Keys
}

func TestAWatchInABusyShardIsLeftToThePurge(t *testing.T) {
	w := newMap(10)
	a, b := twoKeys(w)
	m, stays := wait(t, w, a, b), wait(t, w, b)
	busy := w.Shard(w.Hash(b))
	busy.mu.Lock()
	end(w, a, m) // must not wait for the lock
	busy.mu.Unlock()
	assert.Equal(t, 1, w.Stale())
	n, keys := watched(w)
	assert.Equal(t, []int{2, 1}, []int{n, keys})

	assert.Equal(t, 1, w.Purge())
	assert.Zero(t, w.Stale())
	n, keys = watched(w)
	assert.Equal(t, []int{1, 1}, []int{n, keys})
	assert.Zero(t, w.Purge(), "again")
	assert.Zero(t, busy.stale.watches[:1][0], "the array is kept, and refers to nothing")
	end(w, b, stays)
	n, keys = watched(w)
	assert.Equal(t, []int{0, 0}, []int{n, keys})
}

func TestEntriesLeftToThePurgeAreBounded(t *testing.T) {
	w := newMap(2)
	a, b := twoKeys(w)
	ops := []*machine.Machine{wait(t, w, a, b), wait(t, w, a, b), wait(t, w, a, b)}
	busy := w.Shard(w.Hash(b))
	busy.mu.Lock()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		end(w, a, ops...) // waits for the lock with the third one
	}()
	for w.Stale() < 2 {
		runtime.Gosched()
	}
	for range 100 {
		runtime.Gosched()
	}
	assert.LessOrEqual(t, w.Stale(), 3, "the third counts for a moment, and then it waits")
	select {
	case <-ended:
		t.Error("it did not wait")
	default:
	}
	busy.mu.Unlock()
	<-ended
	assert.Equal(t, 2, w.Stale())
	assert.Equal(t, 2, w.Purge())
	n, keys := watched(w)
	assert.Equal(t, []int{0, 0}, []int{n, keys})
}

// While Purge waits for a shard's lock, more watches are left to it.
func TestPurgeCountsEntriesLeftWhileItWaits(t *testing.T) {
	w := newMap(10)
	a, b := twoKeys(w)
	first, second := wait(t, w, a, b), wait(t, w, a, b)
	busy := w.Shard(w.Hash(b))
	busy.mu.Lock()
	end(w, a, first)
	purged := make(chan int)
	go func() { purged <- w.Purge() }()
	for range 1000 {
		runtime.Gosched() // so that Purge gets as far as the lock
	}
	end(w, a, second)
	busy.mu.Unlock()
	assert.Equal(t, 2, <-purged)
	assert.Zero(t, w.Stale())
}

// KAFKA-2253: a key whose list becomes empty stays in the map while a cursor stands in it.
func TestKafka2253AKeyIsKeptDuringAWalk(t *testing.T) {
	w := newMap(0)
	var ops []*machine.Machine
	for range 5 {
		ops = append(ops, wait(t, w, 7))
	}
	s := w.Shard(w.Hash(7))
	var c Cursor[int]
	out := make([]*machine.Machine, 2)
	n, more := s.Begin(&c, 7, w.Hash(7), EveryPosition, out)
	require.Equal(t, 2, n)
	require.True(t, more)
	end(w, 7, ops...)
	entries, keys := watched(w)
	assert.Equal(t, []int{0, 1}, []int{entries, keys})
	late := wait(t, w, 7)
	n, more = c.Next(out)
	assert.Zero(t, n, "who comes later makes its own second look")
	assert.False(t, more)
	n, _ = s.Begin(&c, 7, w.Hash(7), EveryPosition, out)
	assert.Equal(t, 1, n)
	assert.Same(t, late, out[0])
	end(w, 7, late)
	entries, keys = watched(w)
	assert.Equal(t, []int{0, 0}, []int{entries, keys})
}

// Neither Purge nor leaving a watch to it allocates, once the slice has grown.
func TestPurgeAllocatesNothing(t *testing.T) {
	const runs, each = 20, 10
	w := newMap(2 * each)
	a, b := twoKeys(w)
	var endings []*Ending
	for range (runs + 1) * each {
		endings = append(endings, ending(wait(t, w, a, b)))
	}
	home, busy := w.Shard(w.Hash(a)), w.Shard(w.Hash(b))
	purged := 0
	assert.Zero(t, testing.AllocsPerRun(runs, func() {
		busy.mu.Lock()
		for _, e := range endings[purged:][:each] {
			home.Leave(e)
			e.Machines[0].Settle(machine.Forced, nil)
		}
		busy.mu.Unlock()
		purged += w.Purge()
	}))
	assert.Len(t, endings, purged)
}

// The reaper may purge between Leave and Settle: the statistics have the outcome all the same.
func TestAPurgeBeforeSettleCountsTheOutcome(t *testing.T) {
	w := New(Config[int]{Shards: 8, StaleLimit: 10, Observe: stats.Config{Keys: 64, Now: func() time.Duration { return 0 }}})
	a, b := twoKeys(w)
	m := wait(t, w, a, b)
	other := w.Shard(w.Hash(b))
	other.mu.Lock()
	w.Shard(w.Hash(a)).Leave(&Ending{Machines: []*machine.Machine{m}, Outcomes: []machine.Outcome{machine.Forced}})
	other.mu.Unlock()
	require.Equal(t, 1, w.Purge()) // the reaper comes between Leave and Settle
	m.Settle(machine.Forced, nil)
	hot, _ := other.Keys(nil, nil)
	require.Len(t, hot, 1)
	assert.EqualValues(t, 0, hot[0].Ended[machine.Pending])
	assert.EqualValues(t, 1, hot[0].Ended[machine.Forced])
}
