package stats

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/internal/machine"
)

// waiter is an operation that is not in a purgatory.
type waiter struct{ machine.Core }

func (*waiter) TryComplete() bool { return false }
func (*waiter) OnComplete()       {}
func (*waiter) OnExpiration()     {}

// since returns the machine of an operation that was accepted at start.
func since(start time.Duration) *machine.Machine {
	m := machine.Of(&waiter{})
	m.SetStart(start)
	return m
}

// observerAt returns an observer of times whose clock stands at now.
func observerAt(now time.Duration) *Observer[int] {
	return NewObserver[int](Config{Times: true, Now: func() time.Duration { return now }}, 1)
}

func TestEndingsAreCountedByOutcomeAndWait(t *testing.T) {
	const now = 10 * time.Hour
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 2))
		o := observerAt(now)
		var want [machine.NumOutcomes][NumBuckets]int64
		var waited [machine.NumOutcomes]float64
		for range 100 {
			outcome := machine.Satisfied + machine.Outcome(r.IntN(2))
			var length time.Duration
			switch r.IntN(3) {
			case 0: // at the bound of a bucket, or next to it
				length = WaitUnit<<r.IntN(NumBuckets-1) + time.Duration(r.IntN(3)-1)
			case 1:
				length = time.Duration(r.IntN(20)) * ageUnit
			case 2:
				length = time.Duration(r.IntN(2)) * -time.Millisecond // accepted after the reading of the clock
			}
			m := since(now - length)
			o.Watched(m, true, 1, 1)
			o.Watched(m, false, 2, 2)
			oldest := timesOf(o).OldestAge
			assert.GreaterOrEqual(t, oldest, length)
			end(o, m, outcome)
			assert.Equal(t, oldest, timesOf(o).OldestAge, "it is in a list still")
			o.Unwatched(m, false, outcome, 2, 2)
			assert.EqualValues(t, 1, timesOf(o).Ages.Count())
			o.Unwatched(m, true, outcome, 1, 1)
			want[outcome][bucket(length, WaitUnit)]++
			waited[outcome] += max(length, 0).Seconds()
		}
		sum := timesOf(o)
		for outcome := range want {
			require.Equal(t, want[outcome], sum.Waited[outcome].Counts)
			require.InDelta(t, waited[outcome], sum.Waited[outcome].Sum, 1e-6)
		}
		require.Zero(t, sum.OldestAge)
		require.Zero(t, sum.Ages.Count())
	}
}

// end ends m alone.
func end(o *Observer[int], m *machine.Machine, outcome machine.Outcome) {
	o.Ended([]*machine.Machine{m}, []machine.Outcome{outcome})
}

// timesOf returns what Stats reports if o is the only shard.
func timesOf(observers ...*Observer[int]) *Times {
	sum := NewTimes()
	for _, o := range observers {
		o.AddTimes(sum)
	}
	return sum
}

// The oldest operation of all is the oldest of its shard, and the histogram has the ages of all
// shards.
func TestTimesAreSumsOverShards(t *testing.T) {
	a, b := observerAt(time.Minute), observerAt(time.Minute)
	for _, start := range []time.Duration{50, 30, 55} {
		a.Watched(since(start*time.Second), true, 1, 1)
		b.Watched(since((start+4)*time.Second), true, 1, 1)
	}
	for _, shards := range [][]*Observer[int]{{a, b}, {b, a}} {
		sum := timesOf(shards...)
		assert.InDelta(t, 30, sum.OldestAge.Seconds(), 0.02)
		assert.EqualValues(t, 6, sum.Ages.Count())
		assert.InDelta(t, 10+30+5+6+26+1, sum.Ages.Sum, 6*0.02)
	}
}

// The sum of long waits does not overflow.
func TestSumsOfLongWaitsDoNotOverflow(t *testing.T) {
	const years = 200 * 365 * 24 * time.Hour
	o := observerAt(years)
	for range 4 {
		end(o, since(0), machine.Closed)
	}
	sum := timesOf(o)
	assert.EqualValues(t, 4, sum.Waited[machine.Closed].Counts[NumBuckets-1])
	assert.InEpsilon(t, 4*years.Seconds(), sum.Waited[machine.Closed].Sum, 1e-9)
}

// A histogram's sum is in seconds, and its bounds are those of its unit.
func TestHistogramsHaveTheirUnits(t *testing.T) {
	o := observerAt(10 * time.Second)
	o.Watched(since(5*time.Second), true, 1, 1)
	end(o, since(8500*time.Millisecond), machine.Forced)
	sum := timesOf(o)
	for outcome, h := range sum.Waited {
		assert.Equal(t, WaitUnit, h.Bound(0), "outcome %d", outcome)
	}
	assert.InDelta(t, 1.5, sum.Waited[machine.Forced].Sum, 1e-9)
	assert.Equal(t, LateUnit, sum.Late.Bound(0))
	assert.Equal(t, WaitUnit, sum.Ages.Bound(0))
	assert.InEpsilon(t, 5, sum.Ages.Sum, 0.07)
}

// Lateness counts expired operations that had a deadline, by the time since then.
func TestLatenessCountsOnlyExpiredOperations(t *testing.T) {
	o := observerAt(time.Second)
	var machines []*machine.Machine // of one batch
	var outcomes []machine.Outcome
	for _, late := range []time.Duration{-time.Millisecond, 0, 2 * LateUnit, 2*LateUnit + 1, 3 * time.Millisecond} {
		op := &waiter{}
		m := machine.Of(op)
		require.True(t, machine.Of(op).Begin(op, 1, 1))
		m.Entry().At = int64(time.Second - late)
		machines, outcomes = append(machines, m, since(900*time.Millisecond)), append(outcomes, machine.Expired, machine.Cancelled)
	}
	forced := since(400 * time.Millisecond)
	forced.Entry().At = int64(time.Millisecond)
	machines, outcomes = append(machines, since(0), forced), append(outcomes, machine.Expired, machine.Forced) // the first ended before the timer had it
	o.Ended(machines, outcomes)
	var want [NumBuckets]int64
	want[0], want[1], want[2], want[5] = 2, 1, 1, 1
	sum := timesOf(o)
	assert.Equal(t, want, sum.Late.Counts)
	assert.InDelta(t, 3500e-6, sum.Late.Sum, 1e-8)
	assert.EqualValues(t, 6, sum.Waited[machine.Expired].Counts[10])
	assert.InDelta(t, 6, sum.Waited[machine.Expired].Sum, 1e-6)
	assert.InDelta(t, 0.5, sum.Waited[machine.Cancelled].Sum, 1e-6)
	assert.InDelta(t, 0.6, sum.Waited[machine.Forced].Sum, 1e-6)

	twice := timesOf(o, o)
	assert.InDelta(t, 7000e-6, twice.Late.Sum, 1e-8)
	assert.InDelta(t, 2*sum.Waited[machine.Forced].Sum, twice.Waited[machine.Forced].Sum, 1e-9)
}

func TestAnImmediateEndCountsAsAWaitOfZero(t *testing.T) {
	o := observerAt(time.Hour)
	o.Passed(machine.Satisfied)
	sum := timesOf(o)
	assert.EqualValues(t, 1, sum.Waited[machine.Satisfied].Counts[0])
	assert.Zero(t, sum.Waited[machine.Satisfied].Sum)
	assert.Zero(t, sum.OldestAge)
	assert.Zero(t, sum.Ages.Count())
}

// An observer counts only what Config asks for.
func TestAnObserverCountsOnlyWhatConfigAsksFor(t *testing.T) {
	readings := 0
	clock := func() time.Duration { readings++; return time.Minute }
	require.Nil(t, NewObserver[int](Config{Now: clock}, 1))
	for name, o := range map[string]*Observer[int]{
		"nothing": nil,
		"times":   NewObserver[int](Config{Times: true, Now: clock}, 1),
		"keys":    NewObserver[int](Config{Keys: 1, Now: clock}, 1),
	} {
		m := since(time.Second)
		o.Passed(machine.Satisfied)
		if name != "nothing" {
			o.Watched(m, true, 1, 1)
			o.Watched(m, false, 2, 2)
			o.Unwatched(m, true, machine.Expired, 1, 1)
			readings = 0
			end(o, m, machine.Satisfied)
			assert.Equal(t, name == "times", readings > 0, "it reads the clock only if it uses the time")
			o.Watched(since(time.Second), true, 1, 1)
		}
		assert.Equal(t, name == "keys", o.CountsKeys())
		assert.Equal(t, name == "keys", o != nil && cap(o.hot.keys) > 0, "nor has it memory for keys")
		if name == "keys" {
			o.Tried(1, 1, 5, 4)
		}
		if name == "times" {
			sum := timesOf(o)
			assert.EqualValues(t, 1, sum.Waited[machine.Satisfied].Counts[0])
			assert.EqualValues(t, 1, sum.Waited[machine.Satisfied].Counts[16], "59 s")
			assert.InEpsilon(t, 59*time.Second, sum.OldestAge, 0.07)
			assert.EqualValues(t, 1, sum.Ages.Count())
		}
		hot, expiring := o.Keys(nil, nil, func(key int, _ uint64) int { return 10 * key })
		if name != "keys" {
			assert.Empty(t, hot, name)
			assert.Empty(t, expiring, name)
			continue
		}
		require.Len(t, hot, 2)
		assert.Equal(t, KeyCounts[int]{
			Key: 1, Hash: 1, Since: time.Second, Watched: 2, Tries: 5, Wasted: 4,
			Ended: [machine.NumOutcomes]int64{machine.Expired: 1}, Weight: 7, Waiting: 10,
		}, hot[0])
		assert.Equal(t, KeyCounts[int]{Key: 2, Hash: 2, Since: time.Second, Watched: 1, Weight: 1, Waiting: 20}, hot[1])
		require.Len(t, expiring, 1)
		assert.EqualValues(t, 1, expiring[0].Ended[machine.Expired])
		assert.EqualValues(t, 5, expiring[0].Tries)
	}
}
