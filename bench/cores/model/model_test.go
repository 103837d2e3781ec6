package model

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func load(t *testing.T, name string) Load {
	t.Helper()
	for _, l := range Loads() {
		if l.Name == name {
			return l
		}
	}
	require.Fail(t, "no such load", name)
	return Load{}
}

// One core never waits: its rate is that of its costs.
func TestOneCoreTakesWhatAnOperationCosts(t *testing.T) {
	for _, l := range Loads()[:4] {
		r := l.Run(EPYC(1), Parts(800))
		assert.InEpsilon(t, 1e9/800, r.Rate, 0.03, l.Name)
		assert.Zero(t, r.WaitP99, l.Name)
		assert.Zero(t, r.Moving, l.Name)
	}
}

// Goroutines that share nothing but luck scale; those that share all cannot be faster than the lock that they share.
func TestScalesAsFarAsItShares(t *testing.T) {
	k := Parts(800)
	rate := func(name string, cores int) float64 { return load(t, name).Run(EPYC(cores), k).Rate }
	assert.Greater(t, rate("P1", 8)/rate("P1", 1), 7.0)
	hot := rate("hot key", 8)
	assert.Less(t, hot/rate("hot key", 1), 4.0)
	assert.Less(t, hot*(k.Watch+k.Unlink), 1e9, "a lock is held for no more than all of the time")
}

// A latency that is changed moves the result, in the direction in which it must.
func TestAChangedLatencyMovesTheResult(t *testing.T) {
	shorten(t)
	rate := func(change func(*Machine)) float64 {
		m := EPYC(32)
		change(&m)
		return load(t, "P2").Run(m, Parts(800)).Rate
	}
	as := rate(func(*Machine) {})
	slower := rate(func(m *Machine) { m.Across *= 2 })
	faster := rate(func(m *Machine) { m.Across /= 2 })
	assert.Less(t, slower, as*0.85)
	assert.Greater(t, faster, as*1.15)

	herd := func(wake float64) float64 {
		m := EPYC(8)
		m.Wake = wake
		return load(t, "herd").Run(m, Parts(800)).Rate
	}
	assert.NotEqual(t, herd(1000), herd(50_000))
}

// Work takes longer while the other thread of a core runs, and only then. A few lines move, and a few locks are taken.
func TestAThreadOfTheSameCoreSlowsWork(t *testing.T) {
	l := load(t, "P1")
	one := l.Run(Here(1, 10, 1.5), Parts(800)).Rate
	assert.InEpsilon(t, 1e9/800, one, 0.03)
	assert.InEpsilon(t, 2/1.5, l.Run(Here(2, 10, 1.5), Parts(800)).Rate/one, 0.07)
}

// More shards of a timer help where there are more cores than shards, and only there.
func TestShardsHelpWhereCoresShareThem(t *testing.T) {
	shorten(t)
	rate := func(cores, shards int) float64 {
		k := Parts(800)
		k.TimerShards = func(int) int { return shards }
		return load(t, "P1").Run(EPYC(cores), k).Rate
	}
	assert.Greater(t, rate(128, 256)/rate(128, 64), 1.3)
	assert.InEpsilon(t, 1, rate(2, 256)/rate(2, 64), 0.03)
}

// The same run has the same result.
func TestARunCanBeRepeated(t *testing.T) {
	l := load(t, "crowd")
	first := l.Run(EPYC(8), Parts(800))
	assert.Equal(t, first, l.Run(EPYC(8), Parts(800)))
}

// Beside a goroutine that takes a lock again at once, another one starves where it cannot get the lock while it spins: from
// the hold time on at which the experiment finds it, too (cores bare).
func TestStarvationAppearsAtTheHoldTimeOfTheExperiment(t *testing.T) {
	at := func(hold float64) float64 { return Bare{hold, 300, 20_000}.Starving(Here(2, 10, 1)) }
	assert.Less(t, at(1000), 0.02)
	assert.Greater(t, at(10_000), 0.5)
	assert.Greater(t, at(100_000), 0.9)
}
