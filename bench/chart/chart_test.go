package chart

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/bench/result"
)

func TestPlotsAreDrawnOfWhatWasMeasured(t *testing.T) {
	s := &result.Set{}
	for _, n := range []int{100, 1000} {
		s.Add(result.Sample{Workload: "H1", Params: fmt.Sprintf("N=%d", n), Peer: "ours-ordered", Metrics: map[string]float64{result.NsStep: 1000}})
	}
	s.Distributions = []result.Distribution{{Workload: "P6", Params: "G=1/N=1000000", Peer: "ours", Ms: []float64{-1, 0, 1}}}
	folder := filepath.Join(t.TempDir(), "plots")
	require.NoError(t, os.Mkdir(folder, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "lateness-timers.svg"), []byte("of an earlier run"), 0o600))
	require.NoError(t, All(s, folder))
	for _, drawn := range []string{"step-over-waiters.svg", "lateness-operations.svg"} {
		b, err := os.ReadFile(filepath.Join(folder, drawn))
		require.NoError(t, err)
		assert.Contains(t, string(b), "<svg")
	}
	_, err := os.Stat(filepath.Join(folder, "lateness-timers.svg"))
	assert.ErrorIs(t, err, os.ErrNotExist, "not measured, not drawn")
}
