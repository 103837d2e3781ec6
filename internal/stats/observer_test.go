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
		var waited [machine.NumOutcomes]time.Duration
		for range 100 {
			outcome := machine.Satisfied + machine.Outcome(r.IntN(2))
			var length time.Duration
			switch r.IntN(3) {
			case 0: // at the bound of a bucket, or next to it
				length = WaitUnit<<r.IntN(NumBuckets-1) + time.Duration(r.IntN(3)-1)
			case 1:
				length = time.Duration(r.IntN(20)) << ageShift
			case 2:
				length = time.Duration(r.IntN(2)) * -time.Millisecond // accepted after the reading of the clock
			}
			m := since(now - length)
			o.Watched(m, true, 1, 1)
			o.Watched(m, false, 2, 2)
			o.Ended(m, outcome, o.Now())
			want[outcome][bucket(length, WaitUnit)]++
			waited[outcome] += max(length, 0) / time.Microsecond
		}
		var sum Times
		o.AddTimes(&sum)
		for outcome := range want {
			require.Equal(t, want[outcome], sum.Waited[outcome].Counts)
			require.EqualValues(t, waited[outcome], sum.Waited[outcome].micros)
		}
		requireOldest(t, &sum, nil, now)
	}
}

// The sum of long waits does not overflow.
func TestSumsOfLongWaitsDoNotOverflow(t *testing.T) {
	const years = 200 * 365 * 24 * time.Hour
	o := observerAt(years)
	for range 4 {
		o.Ended(since(0), machine.Closed, o.Now())
	}
	var sum Times
	o.AddTimes(&sum)
	assert.EqualValues(t, 4, sum.Waited[machine.Closed].Counts[NumBuckets-1])
	assert.EqualValues(t, 4*(years/time.Microsecond), sum.Waited[machine.Closed].micros)
}

// A histogram's sum is in seconds, and its bounds are those of its unit.
func TestHistogramsHaveTheirUnits(t *testing.T) {
	o := observerAt(10 * time.Second)
	o.Watched(since(5*time.Second), true, 1, 1)
	o.Ended(since(8500*time.Millisecond), machine.Forced, o.Now())
	sum := NewTimes()
	o.AddTimes(sum)
	for outcome, h := range sum.Waited {
		assert.Equal(t, WaitUnit, h.Bound(0), "outcome %d", outcome)
	}
	assert.InDelta(t, 1.5, sum.Waited[machine.Forced].Sum, 1e-9)
	assert.Equal(t, LateUnit, sum.Late.Bound(0))
	_, ages := sum.Ages(10 * time.Second)
	assert.Equal(t, WaitUnit, ages.Bound(0))
	assert.InEpsilon(t, 5, ages.Sum, 0.07)
}

// Lateness counts expired operations that had a deadline, by the time since then.
func TestLatenessCountsOnlyExpiredOperations(t *testing.T) {
	o := observerAt(time.Second)
	var m *machine.Machine
	for _, late := range []time.Duration{-time.Millisecond, 0, 2 * LateUnit, 2*LateUnit + 1, 3 * time.Millisecond} {
		op := &waiter{}
		m = machine.Of(op)
		require.True(t, (&machine.Hold{Op: op}).Begin(1, 1))
		m.Entry().At = int64(time.Second - late)
		o.Ended(m, machine.Expired, o.Now())
	}
	o.Ended(since(0), machine.Expired, o.Now()) // ended before the timer had it
	o.Ended(m, machine.Forced, o.Now())
	var want [NumBuckets]int64
	want[0], want[1], want[2], want[5] = 2, 1, 1, 1
	sum := new(Times)
	o.AddTimes(sum)
	assert.Equal(t, want, sum.Late.Counts)
	assert.EqualValues(t, 3500, sum.Late.micros)
	assert.EqualValues(t, 6, sum.Waited[machine.Expired].Counts[10])

	forced := sum.Waited[machine.Forced].micros
	o.AddTimes(sum)
	assert.EqualValues(t, 7000, sum.Late.micros)
	assert.Equal(t, 2*forced, sum.Waited[machine.Forced].micros)
}

func TestAnImmediateEndCountsAsAWaitOfZero(t *testing.T) {
	o := observerAt(time.Hour)
	o.Passed(machine.Satisfied)
	var sum Times
	o.AddTimes(&sum)
	assert.EqualValues(t, 1, sum.Waited[machine.Satisfied].Counts[0])
	assert.Zero(t, sum.Waited[machine.Satisfied].micros)
	oldest, all := sum.Ages(time.Hour)
	assert.Zero(t, oldest)
	assert.Zero(t, all.Count())
}

// An observer counts only what Config asks for. Its methods may be called in any case.
func TestAnObserverCountsOnlyWhatConfigAsksFor(t *testing.T) {
	clock := func() time.Duration { return time.Minute }
	require.Nil(t, NewObserver[int](Config{Now: clock}, 1))
	for name, o := range map[string]*Observer[int]{
		"nothing": nil,
		"times":   NewObserver[int](Config{Times: true, Now: clock}, 1),
		"keys":    NewObserver[int](Config{Keys: 1, Now: clock}, 1),
	} {
		m := since(time.Second)
		o.Watched(m, true, 1, 1)
		o.Watched(m, false, 2, 2)
		o.Tried(1, 1, 5, 4)
		if name != "keys" {
			o.Forgotten(1, 1)
		}
		o.Unwatched(m, machine.Expired, 1, 1)
		o.Ended(m, machine.Satisfied, o.Now())
		o.Passed(machine.Satisfied)
		o.Watched(since(time.Second), true, 1, 1)
		var sum Times
		o.AddTimes(&sum)
		hot, expiring := o.Keys(nil, nil, func(key int, _ uint64) int { return 10 * key })
		oldest, _ := sum.Ages(time.Minute)
		if name == "times" {
			assert.EqualValues(t, 1, sum.Waited[machine.Satisfied].Counts[0])
			assert.EqualValues(t, 1, sum.Waited[machine.Satisfied].Counts[16], "59 s")
			assert.InEpsilon(t, 59*time.Second, oldest, 0.07)
		} else {
			assert.Equal(t, Times{ages: sum.ages}, sum, name)
			assert.Zero(t, oldest, name)
		}
		assert.Equal(t, name == "keys", o.CountsTries())
		assert.Equal(t, name == "times", o.Now() != 0, "it reads the clock only if it uses the time")
		if name != "keys" {
			assert.Empty(t, hot, name)
			assert.Empty(t, expiring, name)
			continue
		}
		require.Len(t, hot, 2)
		assert.Equal(t, KeyCounts[int]{
			Key: 1, Since: time.Second, Watched: 2, Tries: 5, Wasted: 4,
			Ended: [machine.NumOutcomes]int64{machine.Expired: 1}, Weight: 7, Waiting: 10,
		}, hot[0])
		assert.Equal(t, KeyCounts[int]{Key: 2, Since: time.Second, Watched: 1, Weight: 1, Waiting: 20}, hot[1])
		require.Len(t, expiring, 1)
		assert.EqualValues(t, 1, expiring[0].Ended[machine.Expired])
		assert.EqualValues(t, 5, expiring[0].Tries)
	}
}
