package result

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func sampleSet() *Set {
	s := &Set{About: map[string]string{"goos": "linux", "goarch": "amd64", "cpu": "a cpu"}}
	for round, ns := range []float64{100, 300, 120} {
		s.Add(Sample{"T1", "G=1/P=0", "std", round, 1000, map[string]float64{NsOp: 2 * ns, AllocsOp: 1}})
		s.Add(Sample{"T1", "G=1/P=0", "ours", round, 1000, map[string]float64{NsOp: ns, AllocsOp: 0}})
	}
	return s
}

func TestStatIsMedianAndRangeOfRounds(t *testing.T) {
	st, ok := sampleSet().Stat("T1", "G=1/P=0", "ours", NsOp)
	require.True(t, ok)
	assert.Equal(t, Stat{Median: 120, Min: 100, Max: 300, Rounds: 3}, st)
	_, ok = sampleSet().Stat("T1", "G=1/P=0", "nobody", NsOp)
	assert.False(t, ok)
}

func TestRatioIsTakenWithinRounds(t *testing.T) {
	// The second round was three times as slow for both: the ratio does not move.
	r, ok := sampleSet().Ratio("T1", "G=1/P=0", "ours", NsOp, "std")
	require.True(t, ok)
	assert.InDelta(t, 0.5, r, 1e-9)
}

func TestRatioWithoutBaseIsNotMeasured(t *testing.T) {
	_, ok := sampleSet().Ratio("T1", "G=1/P=0", "ours", NsOp, "nobody")
	assert.False(t, ok)
}

func TestJSONRoundTrip(t *testing.T) {
	want := sampleSet()
	var b bytes.Buffer
	require.NoError(t, want.WriteJSON(&b))
	got, err := ParseJSON(b.Bytes())
	require.NoError(t, err)
	assert.Equal(t, want, got)
}

func TestTablesHoldRatioToTheBase(t *testing.T) {
	var b strings.Builder
	require.NoError(t, sampleSet().WriteTables(&b, []Workload{{"T1", "a title", []string{"nobody", "std"}, NsOp}}))
	assert.Contains(t, b.String(), "T1  a title")
	assert.Contains(t, b.String(), "x std")
	assert.NotContains(t, b.String(), "nobody")
	assert.Contains(t, b.String(), "0.50")
	assert.Contains(t, b.String(), "120 ±83%")
}

func TestFiguresAreReadable(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 0.12345: "0.123", 4.099: "4.1", 345.7: "346", 999.7: "1,000", 3894.6: "3,890", 99992: "100,000",
		847347: "847,000", 35471205: "35,500,000",
	} {
		assert.Equal(t, want, Figure(v))
	}
}
