package watchers

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/internal/sched"
)

// signals are what the tests of this file call.
type signals struct {
	t *testing.T
	*Watchers[int]
	kicks int
}

func newSignals(t *testing.T, shards int) *signals {
	s := &signals{t: t}
	s.Watchers = New(Config[int]{Closed: new(sched.Bool), Kick: func() { s.kicks++ }, Now: start, Shards: shards})
	return s
}

func (s *signals) signal(key int, upTo int64) bool {
	_, awaited := s.Ask(s.at(key, upTo), false)
	return awaited
}

// take is a worker. It returns the key that it has taken, and how many operations it has tried; -1 if there was none.
func (s *signals) take() (key, tried int) {
	var walk *Visit[int]
	out, found := take(s.Watchers, &walk)
	if !found {
		return -1, 0
	}
	key = walk.Key
	require.Empty(s.t, next(&walk, groupSize))
	return key, len(out)
}

// Signals of a key make one walk, up to the highest of their positions.
func TestSignalsOfAKeyCoalesce(t *testing.T) {
	s := newSignals(t, 8)
	for i := range int64(9) {
		waitAt(t, s.Watchers, 1, i)
	}
	for _, positions := range [][]int64{{4, 0, 1}, {0, 4, 1}, {0, 1, 4}, {4}} {
		for _, upTo := range positions {
			assert.True(t, s.signal(1, upTo))
		}
		checkInvariants(t, s.Watchers)
		assert.True(t, s.Signalled())
		key, tried := s.take()
		assert.Equal(t, []int{1, 5}, []int{key, tried})
		assert.False(t, s.Signalled())
	}
	assert.Equal(t, 4, s.kicks, "one for one piece of work")
	assert.EqualValues(t, 10, totals(s.Watchers).Signals)
	s.signal(1, 0)
	_, tried := s.take()
	assert.Equal(t, 1, tried, "what was taken is over")
}

// A signal that comes during a walk makes another pass of it. One that comes after a worker has begun is not taken for what it does.
func TestASignalDuringAWalkMakesAnotherPass(t *testing.T) {
	s := newSignals(t, 8)
	m := wait(t, s.Watchers, 1)
	require.True(t, s.signal(1, everyPosition))
	var worker *Visit[int]
	out, _ := take(s.Watchers, &worker)
	same(t, list(m), out)
	require.True(t, s.signal(1, everyPosition))
	assert.False(t, s.Signalled())
	same(t, list(m), next(&worker, 8))
	assert.Empty(t, next(&worker, 8))
	assert.Equal(t, 1, s.kicks)
}

// A check does what a signal has asked for, and so a worker finds nothing to do.
func TestACheckTakesOverASignal(t *testing.T) {
	s := newSignals(t, 8)
	all := list(waitAt(t, s.Watchers, 1, 3), waitAt(t, s.Watchers, 1, 7))
	s.signal(1, 9)
	same(t, all, visit(s.Watchers, 1, 3, 8))
	assert.False(t, s.Signalled())

	s.signal(1, 9)
	var walk *Visit[int]
	same(t, all[:1], begin(s.Watchers, &walk, 1, 3, 1))
	assert.False(t, s.Signalled())
	require.Zero(t, pause(&walk))
	same(t, all[1:], resume(&walk, 8))
}

func TestSignalledKeysAreTakenInTheirOrder(t *testing.T) {
	for _, shards := range []int{1, 8} {
		s := newSignals(t, shards)
		for key := range 5 {
			wait(t, s.Watchers, key)
		}
		for _, key := range []int{3, 0, 4, 1, 2, 0, 3} {
			s.signal(key, everyPosition)
		}
		checkInvariants(t, s.Watchers)
		for _, want := range []int{3, 0, 4, 1, 2, -1} {
			key, _ := s.take()
			assert.Equal(t, want, key)
			checkInvariants(t, s.Watchers)
		}
	}
}

func TestASignalOfAKeyWithoutWaitersIsDropped(t *testing.T) {
	s := newSignals(t, 8)
	assert.False(t, s.signal(1, everyPosition), "its shard was never used")
	for i := range uint64(8) {
		s.shard(i)
	}
	assert.False(t, s.signal(1, everyPosition))
	assert.Zero(t, s.kicks, "there is no work")
	m := wait(t, s.Watchers, 1)
	assert.False(t, s.signal(2, everyPosition))
	assert.True(t, s.signal(1, everyPosition))
	end(s.Watchers, 1, m) // the key leaves the map while it is queued
	assert.False(t, s.Signalled())
	wait(t, s.Watchers, 1)
	key, _ := s.take()
	assert.Equal(t, -1, key, "the key is another one")
	assert.True(t, s.signal(1, everyPosition))
	key, _ = s.take()
	assert.Equal(t, 1, key)
}

// While no worker takes signals, keys that are signalled come and go. The queue keeps those
// that are waited for, and no others.
func TestTheQueueForgetsKeysThatHaveLeftTheMap(t *testing.T) {
	s := newSignals(t, 4)
	for key := range 5 {
		wait(t, s.Watchers, key)
		s.signal(key, everyPosition)
	}
	for key := 5; key < 1000; key++ {
		m := wait(t, s.Watchers, key)
		s.signal(key, everyPosition)
		end(s.Watchers, key, m)
		if key%50 == 0 {
			checkInvariants(t, s.Watchers)
		}
	}
	for _, want := range []int{0, 1, 2, 3, 4, -1} {
		key, _ := s.take()
		assert.Equal(t, want, key)
	}
	for range 3 { // all keys of a queue leave, and it gets new ones
		var all []*machine.Machine
		for key := range 60 {
			all = append(all, wait(t, s.Watchers, 10_000+key))
			s.signal(10_000+key, everyPosition)
		}
		rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		for _, m := range all {
			key := Waits[int](m)[0].Key
			end(s.Watchers, key, m)
			checkInvariants(t, s.Watchers)
		}
		assert.False(t, s.Signalled())
	}
}
