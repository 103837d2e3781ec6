package result

import (
	"os"
	"path/filepath"
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

func TestWherePeersAreBetterComparesWithOurBest(t *testing.T) {
	s := sampleSet()
	s.Add(Sample{"T1", "G=1/P=0", "cheap", 0, 1, map[string]float64{NsOp: 60}})
	s.Add(Sample{"T1", "G=1/P=0", "floor", 0, 1, map[string]float64{NsOp: 6}})
	better := s.WherePeersAreBetter(nil, []string{"floor"})
	require.Len(t, better, 1)
	assert.Equal(t, "T1 G=1/P=0: cheap 60 ns/op, ours 120", better[0].String())

	s.Add(Sample{"T1", "G=1/P=0", "ours-handle", 0, 1, map[string]float64{NsOp: 250}})
	assert.Len(t, s.WherePeersAreBetter(nil, []string{"floor"}), 1)
	better = s.WherePeersAreBetter([]string{"ours-handle"}, []string{"floor"})
	require.Len(t, better, 3)
	assert.Equal(t, "T1 G=1/P=0: std 240 ns/op, ours-handle 250", better[1].String())
}

func TestJSONRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.json")
	f, err := os.Create(path)
	require.NoError(t, err)
	want := sampleSet()
	want.Distributions = []Distribution{{"T2", "N=1", "ours", []float64{0, 0.5, 1}}}
	require.NoError(t, want.WriteJSON(f))
	require.NoError(t, f.Close())
	got, err := ReadJSON(path)
	require.NoError(t, err)
	assert.Equal(t, want, got)
}

func TestBenchLinesAreWhatBenchstatReads(t *testing.T) {
	var b strings.Builder
	require.NoError(t, sampleSet().WriteBench(&b))
	assert.Contains(t, b.String(), "\ncpu: a cpu\n")
	assert.Contains(t, b.String(), "BenchmarkT1/G=1/P=0/peer=ours \t    1000\t100 ns/op\t0 allocs/op\n")
	for line := range strings.Lines(b.String()) {
		if strings.HasPrefix(line, "Benchmark") {
			assert.Zero(t, len(strings.Fields(line))%2, "name, count, then pairs of value and unit: %q", line)
		}
	}
}

func TestTablesHoldRatioToTheBase(t *testing.T) {
	var b strings.Builder
	require.NoError(t, sampleSet().WriteTables(&b, map[string]Heading{"T1": {"a title", []string{"nobody", "std"}, NsOp}}))
	assert.Contains(t, b.String(), "T1  a title")
	assert.Contains(t, b.String(), "x std")
	assert.NotContains(t, b.String(), "nobody")
	assert.Contains(t, b.String(), "0.50")
	assert.Contains(t, b.String(), "120 ±83%")
}
