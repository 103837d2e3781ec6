package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/bench/purgatories"
	"github.com/delayedop/purgatory/bench/result"
	"github.com/delayedop/purgatory/bench/workload"
)

// repository is a folder with the pages, each with old figures between its lines.
func repository(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	for _, page := range pages {
		path := filepath.Join(folder, page)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte("before\n"+figuresBegin+"old\n"+figuresEnd+"after\n"), 0o600))
	}
	return folder
}

// read returns the pages of a repository.
func read(t *testing.T, repository string) []string {
	t.Helper()
	var out []string
	for _, page := range pages {
		b, err := os.ReadFile(filepath.Join(repository, page))
		require.NoError(t, err)
		out = append(out, string(b))
	}
	return out
}

func TestPagesKeepWhatStandsAroundTheFigures(t *testing.T) {
	folder := repository(t)
	set := &result.Set{About: map[string]string{"cpu": "a cpu"}}
	set.Add(result.Sample{Workload: "P1", Params: "G=1/heap=128MB", Peer: purgatories.Ours, Metrics: map[string]float64{result.NsOp: 98765}})
	for range 2 { // written twice, they are there once
		require.NoError(t, writePages(folder, set))
	}
	for i, page := range read(t, folder) {
		assert.Regexp(t, `(?s)^before\n.*9.*after\n$`, page, pages[i])
		assert.NotContains(t, page, "old")
		assert.Equal(t, 1, strings.Count(page, figuresBegin))
	}
	assert.Contains(t, read(t, folder)[0], "| 98,800 | – | – | – |")
	assert.Contains(t, read(t, folder)[0], "on a cpu")
}

func TestAPageWithoutItsLinesLeavesAllAlone(t *testing.T) {
	folder := repository(t)
	require.NoError(t, os.WriteFile(filepath.Join(folder, pages[1]), []byte("nothing here\n"), 0o600))
	before := read(t, folder)
	require.ErrorContains(t, writePages(folder, &result.Set{}), "benchmarks.md")
	assert.Equal(t, before, read(t, folder))
}

// A run that leaves something out must not replace the figures of one that does not.
func TestOnlyAFullRunWritesThePages(t *testing.T) {
	for _, c := range []struct {
		about map[string]string
		kind  string
	}{
		{map[string]string{"quick": "false"}, "full"},
		{map[string]string{"quick": "true"}, "quick"},
		{map[string]string{"custom": "true"}, "custom"},
		{map[string]string{"quick": "true", "custom": "true"}, "custom"},
	} {
		folder := repository(t)
		require.NoError(t, publish(&result.Set{About: c.about}, options{repository: folder, results: folder}))
		for _, page := range read(t, folder) {
			assert.Equal(t, c.kind == full, !strings.Contains(page, "old"), c.kind)
		}
		assert.FileExists(t, filepath.Join(folder, c.kind, "samples.json"))
	}
}

// A run that is read from its file is published as if it had just been measured.
func TestAReportPublishesTheRunAgain(t *testing.T) {
	results := repository(t)
	require.NoError(t, run([]string{"-report", "results/full/samples.json", "-results", results, "-repository", results}))
	for _, file := range []string{"samples.json", "tables.md"} {
		want, err := os.ReadFile(filepath.Join("results", full, file))
		require.NoError(t, err)
		got, err := os.ReadFile(filepath.Join(results, full, file))
		require.NoError(t, err)
		assert.Equal(t, string(want), string(got), "%s: go run . -report results/full/samples.json writes it", file)
	}
	for _, page := range read(t, results) {
		assert.NotContains(t, page, "old")
	}
}

func TestFlags(t *testing.T) {
	_, err := flags([]string{"-rounds", "-1"})
	require.ErrorContains(t, err, "-1")
	_, err = flags([]string{"everything"})
	require.ErrorContains(t, err, "unexpected argument")
	o, err := flags([]string{"-quick"})
	require.NoError(t, err)
	assert.EqualValues(t, 2, o.rounds)
	assert.False(t, o.custom)
	for _, args := range [][]string{{"-only", "P4"}, {"-rounds", "2"}, {"-window", "1ms"}} {
		o, err := flags(args)
		require.NoError(t, err)
		assert.True(t, o.custom, args)
	}
}

// published returns the published run.
func published(t *testing.T) *result.Set {
	t.Helper()
	samples, err := os.ReadFile("results/full/samples.json")
	require.NoError(t, err)
	set, err := result.ParseJSON(samples)
	require.NoError(t, err)
	return set
}

// The pages of the repository show the figures of the published run.
func TestThePagesShowThePublishedRun(t *testing.T) {
	set := published(t)
	for _, page := range pages {
		old, err := os.ReadFile(filepath.Join("..", page))
		require.NoError(t, err)
		want, err := withFigures(old, set, page != frontPage)
		require.NoError(t, err, page)
		assert.Equal(t, string(want), string(old), "%s: go run . -report results/full/samples.json writes it", page)
	}
}

// The front page's charts are those of the published run. A run without these steps draws none.
func TestTheChartsShowThePublishedRun(t *testing.T) {
	set := published(t)
	for _, c := range charts {
		drawn, err := os.ReadFile(filepath.Join("..", c.file))
		require.NoError(t, err)
		assert.Equal(t, string(c.draw(set)), string(drawn), "%s: go run . -report results/full/samples.json writes it", c.file)
		assert.Nil(t, c.draw(&result.Set{}))
	}
}

// The published run has for every workload what was promised of it: every peer with every parameter, rounds that show a
// spread, allocations, and the ratio to the standard library.
func TestThePublishedRunIsWhole(t *testing.T) {
	set := published(t)
	require.Equal(t, full, kindOf(set.About))
	for _, f := range workload.Families() {
		for _, w := range f.Workloads {
			params := result.Unique(set.Samples, func(s result.Sample) (string, bool) { return s.Params, s.Workload == w.Name })
			require.NotEmpty(t, params, w.Name)
			for _, p := range params {
				assertWhole(t, set, w, p)
			}
		}
	}
}

func assertWhole(t *testing.T, set *result.Set, w result.Workload, params string) {
	t.Helper()
	rounds := map[string]int{}
	for _, s := range set.Samples {
		if s.Workload != w.Name || s.Params != params {
			continue
		}
		rounds[s.Peer]++
		_, perOp := s.Metrics[result.AllocsOp]
		_, perSecond := s.Metrics[result.AllocsSec]
		assert.True(t, perOp || perSecond, "%s %s %s: no allocations", w.Name, params, s.Peer)
	}
	for peer, n := range rounds {
		assert.GreaterOrEqual(t, n, 2, "%s %s %s: one round has no spread", w.Name, params, peer)
	}
	assert.Contains(t, rounds, w.Bases[0], "%s %s: no ratio to the standard library", w.Name, params)
	everybody := result.Unique(set.Samples, func(s result.Sample) (string, bool) { return s.Peer, s.Workload == w.Name })
	for _, peer := range everybody {
		assert.Contains(t, rounds, peer, "%s %s", w.Name, params)
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
	writeComparison(&b, s, true)
	assert.Equal(t, 3, strings.Count(b.String(), "\n|"), "a heading, and the one line that was measured")
	assert.Contains(t, b.String(), "| memory of a pending request, 1 key, bytes | 112 | 227 | – | 170 |\n")
}
