package target

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/bench/result"
)

func set(ns ...float64) *result.Set {
	s := &result.Set{}
	for round, v := range ns {
		s.Add(result.Sample{Workload: "T1", Params: "G=1/P=0", Peer: "x", Round: round, Metrics: map[string]float64{result.NsOp: v}})
		s.Add(result.Sample{Workload: "T1", Params: "G=1/P=0", Peer: "base", Round: round, Metrics: map[string]float64{result.NsOp: 100}})
	}
	return s
}

func TestVerdicts(t *testing.T) {
	x, base := at{"T1", "G=1/P=0", "x"}, at{"T1", "G=1/P=0", "base"}
	for name, c := range map[string]struct {
		target Target
		set    *result.Set
		want   Verdict
	}{
		"at most, met":          {atMost("ns", x, result.NsOp, 10), set(10), Met},
		"at most, median":       {atMost("ns", x, result.NsOp, 10), set(9, 10, 99), Met},
		"at most, missed":       {atMost("ns", x, result.NsOp, 10), set(11), NotMet},
		"promise, worst counts": {never("ns", x, result.NsOp, 10), set(9, 10, 99), NotMet},
		"at least, met":         {atLeast("ns", x, result.NsOp, 10), set(10), Met},
		"ratio, met":            {ratio("r", x, base, result.NsOp, 0.4), set(40), Met},
		"ratio, missed":         {ratio("r", x, base, result.NsOp, 0.4), set(41), NotMet},
		"scaling, met":          {scaling("s", x, base, 2), set(50), Met},
		"scaling, missed":       {scaling("s", x, base, 2), set(51), NotMet},
		"not measured":          {ratio("r", x, base, result.NsOp, 0.4), set(), NotMeasured},
	} {
		_, got := c.target.Check(c.set)
		assert.Equal(t, c.want, got, name)
	}
}

// A target that could not be checked is seen, unless its whole workload was not asked for.
func TestEveryTargetOfAMeasuredWorkloadIsPrinted(t *testing.T) {
	var b strings.Builder
	require.NoError(t, Write(&b, set(1)))
	seen := 0
	for _, x := range All() {
		if x.Workload == "T1" {
			assert.Contains(t, b.String(), x.What)
			seen++
		}
	}
	assert.Equal(t, seen, strings.Count(b.String(), "T1"))
	assert.NotContains(t, b.String(), "P1")
	assert.Contains(t, b.String(), "0 met, 0 NOT met")
}

func TestFiguresAreReadable(t *testing.T) {
	for v, want := range map[float64]string{0.12345: "0.123", 4.099: "4.1", 345.7: "346", 3894.6: "3,890", 847347: "847,000", 35471205: "35,500,000"} {
		assert.Equal(t, want, figure(v))
	}
}

// Users compare what was measured: a line without ours is left out, one without a peer says so.
func TestTheComparisonHoldsWhatWasMeasured(t *testing.T) {
	s := &result.Set{}
	for peer, v := range map[string]float64{"ours": 112.2, "cb": 226.7, "std-timers": 170.2} {
		s.Add(result.Sample{Workload: "P5", Params: "keys=1/N=1000000", Peer: peer, Metrics: map[string]float64{result.Bytes: v}})
	}
	s.Add(result.Sample{Workload: "P1", Params: "G=1", Peer: "cb", Metrics: map[string]float64{result.NsOp: 541}})
	var b strings.Builder
	require.NoError(t, WriteComparison(&b, s))
	assert.Equal(t, 3, strings.Count(b.String(), "\n"), "a heading, and the one line that was measured")
	assert.Contains(t, b.String(), "| memory of a pending request, 1 key, bytes | 112 | 227 | – | 170 |\n")
}
