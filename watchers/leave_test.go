package watchers

import (
	"math/rand/v2"
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
)

// ending is m as a batch that is forced.
func ending(m *operation.Machine) Ending {
	return Ending{Machines: []*operation.Machine{m}, Outcomes: []operation.Outcome{operation.Forced}}
}

func running(w *Watchers[int]) int {
	var t Totals
	for i := range w.shards {
		w.shards[i].Totals(&t)
	}
	return t.Running
}

func TestCallbacksQueueBehindSoManyThatRun(t *testing.T) {
	w := newMap(0)
	s := w.Shard(w.Hash(1))
	for i := range MaxRunning {
		require.True(t, s.Leave(ending(wait(t, w, 1))), "%d run", i)
	}
	first, second, third := wait(t, w, 1), wait(t, w, 1), wait(t, w, 1)
	for _, m := range []*operation.Machine{first, second, third} {
		require.False(t, s.Leave(ending(m)))
	}
	assert.Equal(t, MaxRunning+3, running(w), "who is on the way to the queue counts: Shutdown waits for them")
	assert.False(t, w.Queued())
	assert.False(t, s.Queue(ending(first)))
	assert.False(t, s.Queue(ending(second)))
	assert.True(t, w.Queued())
	assert.Equal(t, MaxRunning+3, running(w))

	assert.Same(t, first, s.Exit(), "before it may leave, one that runs takes over")
	assert.Same(t, second, s.Exit())
	assert.False(t, w.Queued())
	assert.Nil(t, s.Exit())
	assert.Equal(t, MaxRunning, running(w))
	assert.True(t, s.Queue(ending(third)), "there are few enough by now")
	assert.Equal(t, MaxRunning, running(w))
	for range MaxRunning {
		assert.Nil(t, s.Exit())
	}
	assert.Zero(t, running(w))
}

func TestQueuedCallbacksAreStuckWhenNobodyHasTakenOne(t *testing.T) {
	w := newMap(0)
	s := w.Shard(w.Hash(1))
	assert.False(t, s.Stuck())
	assert.False(t, s.Stuck(), "nothing is queued")
	for range MaxRunning {
		s.Leave(ending(wait(t, w, 1)))
	}
	for range 3 {
		m := wait(t, w, 1)
		s.Leave(ending(m))
		s.Queue(ending(m))
	}
	assert.False(t, s.Stuck(), "since when, nobody knows")
	require.NotNil(t, s.Exit())
	assert.False(t, s.Stuck(), "one was taken")
	assert.True(t, s.Stuck())
	s.Enter()
	assert.Equal(t, MaxRunning+1+2, running(w), "who helps counts")
	require.NotNil(t, s.Exit())
	require.NotNil(t, s.Exit())
	assert.False(t, s.Stuck())
	require.Nil(t, s.Exit())
	assert.Equal(t, MaxRunning, running(w))
}

func TestAQueueRefersToNobodyWhoWasTakenOutOfIt(t *testing.T) {
	w := newMap(0)
	s := w.Shard(w.Hash(1))
	for range MaxRunning {
		s.Leave(ending(wait(t, w, 1)))
	}
	for range 2 {
		m := wait(t, w, 1)
		s.Leave(ending(m))
		s.Queue(ending(m))
	}
	taken := weak.Make(s.Exit())
	runtime.GC()
	assert.Nil(t, taken.Value())
	assert.True(t, w.Queued(), "the other one")
}

// TestABatchCountsEachEndForItsKeys: it tells of what is alike at once, and of nothing twice.
func TestABatchCountsEachEndForItsKeys(t *testing.T) {
	const keys = 4
	w := New(Config[int]{Shards: 2, Observe: Observe{Keys: 64}, Now: func() time.Duration { return 0 }})
	r := rand.New(rand.NewPCG(1, 5))
	var want [keys][operation.Outcomes]int64
	o := operation.Forced
	for range 200 {
		var batch Ending
		for range 1 + r.IntN(8) {
			if r.IntN(3) == 0 {
				o = operation.Forced + operation.Outcome(r.IntN(2))
			}
			of := r.Perm(keys)[:1+r.IntN(2)]
			for _, key := range of {
				want[key][o]++
			}
			batch.Machines = append(batch.Machines, wait(t, w, of...))
			batch.Outcomes = append(batch.Outcomes, o)
		}
		s := w.Shard(w.Hash(r.IntN(keys)))
		require.True(t, s.Leave(batch))
		require.Nil(t, s.Exit())
	}
	var hot, expiring []KeyCounts[int]
	for i := range w.shards {
		hot, expiring = w.shards[i].Keys(hot, expiring)
	}
	require.Len(t, hot, keys)
	require.Len(t, expiring, keys)
	for _, counts := range append(hot, expiring...) {
		assert.Equal(t, want[counts.Key], counts.Ended)
	}
}

func TestAWithdrawnOperationDoesNotCountAsEnded(t *testing.T) {
	w := New(Config[int]{Shards: 2, Observe: Observe{Keys: 64}, Now: func() time.Duration { return 0 }})
	m := wait(t, w, 1, 2)
	require.True(t, w.Shard(w.Hash(1)).Withdraw(m))
	m.Reject(true)
	for i := range w.shards {
		hot, expiring := w.shards[i].Keys(nil, nil)
		for _, counts := range hot {
			assert.EqualValues(t, 1, counts.Watched)
			assert.Zero(t, counts.Ended)
		}
		assert.Empty(t, expiring)
	}
}
