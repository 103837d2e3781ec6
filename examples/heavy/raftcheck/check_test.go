package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/delayedop/purgatory/examples/heavy/raftcheck/client"
	"github.com/delayedop/purgatory/internal/watchdog"
	"github.com/delayedop/purgatory/proof/built"
)

func TestMain(m *testing.M) {
	folder, err := os.MkdirTemp("", "raftkv-test-")
	if err != nil {
		panic(err)
	}
	binaries = folder
	goleak.VerifyTestMain(watchdog.Over(m), goleak.Cleanup(func(code int) {
		os.RemoveAll(folder)
		os.Exit(code)
	}))
}

var binaries string

// build builds the members' program, with the race detector if this test has it, and with known defects in it if tags say so.
func build(t *testing.T, name string, flags ...string) string {
	t.Helper()
	path := filepath.Join(binaries, name)
	args := slices.Concat([]string{"build"}, built.Flags(), flags, []string{"-o", path, "../raftkv/cmd/raftkv"})
	out, err := exec.Command("go", args...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return path
}

// buildSeeded builds it with the known defects.
func buildSeeded(t *testing.T) string { return build(t, "raftkv-seeded", "-tags", "raftkv_defects") }

func runSeed(t *testing.T, binary, defect string, seed uint64, faults ...Fault) *Report {
	t.Helper()
	report, err := Run(context.Background(), Config{
		Binary: binary, Folder: t.TempDir(), Drawings: t.TempDir(), Seed: seed, Duration: 5 * time.Second, Clients: 9,
		Faults: faults, Defect: defect, Say: t.Logf,
	})
	require.NoError(t, err)
	require.NoError(t, report.Wrong)
	require.Positive(t, report.Operations)
	require.Zero(t, report.Left, "waits that nobody ended")
	return report
}

// TestShortRun is what make raft-check does, for a few seconds.
func TestShortRun(t *testing.T) {
	report := runSeed(t, build(t, "raftkv"), "", 6, AllFaults...)
	require.Equal(t, porcupine.Ok, report.Linearizable, "drawn in %s", report.Drawing)
	require.Positive(t, report.Tally.Written.Load())
	require.Positive(t, report.Tally.Read.Load())
}

// TestACallWithoutAnAnswerIsWrong, unless a member was frozen meanwhile, or the client gave up before the timeout, or the run ended.
func TestACallWithoutAnAnswerIsWrong(t *testing.T) {
	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer hangs.Close()
	target := client.New(strings.TrimPrefix(hangs.URL, "http://"))
	defer target.Close()
	over, end := context.WithTimeout(context.Background(), callTimeout+time.Millisecond)
	defer end()
	for name, test := range map[string]struct {
		ctx    context.Context
		hangUp time.Duration
		frozen int64
		wrong  int
	}{
		"no answer":    {context.Background(), callTimeout + time.Millisecond, 0, 1},
		"frozen":       {context.Background(), callTimeout + time.Millisecond, 1, 0},
		"gave up soon": {context.Background(), time.Millisecond, 0, 0},
		"over":         {over, time.Hour, 0, 0},
	} {
		c := &caller{history: newHistory(), tally: &Tally{}, hangUp: test.hangUp}
		c.tally.frozen.Store(test.frozen)
		c.get(test.ctx, target, "k")
		require.Len(t, c.history.mu.wrong, test.wrong, name)
		require.EqualValues(t, 1, c.tally.NotRead.Load(), name)
	}
}

// call is one line of a made-up history.
func call(from, to int64, in input, out output) porcupine.Operation {
	return porcupine.Operation{Call: from, Return: to, Input: in, Output: out}
}

func TestModelKnowsWrongHistories(t *testing.T) {
	put := func(v string) input { return input{put: true, key: "k", value: v} }
	get := input{key: "k"}
	for name, test := range map[string]struct {
		history []porcupine.Operation
		want    porcupine.CheckResult
	}{
		"put, then get":                      {[]porcupine.Operation{call(0, 1, put("a"), output{revision: 5}), call(2, 3, get, output{value: "a", revision: 5})}, porcupine.Ok},
		"nothing written, nothing found":     {[]porcupine.Operation{call(0, 1, get, output{})}, porcupine.Ok},
		"stale":                              {[]porcupine.Operation{call(0, 1, put("a"), output{revision: 5}), call(2, 3, get, output{})}, porcupine.Illegal},
		"of the wrong revision":              {[]porcupine.Operation{call(0, 1, put("a"), output{revision: 5}), call(2, 3, get, output{value: "a", revision: 4})}, porcupine.Illegal},
		"a revision that falls":              {[]porcupine.Operation{call(0, 1, put("a"), output{revision: 5}), call(2, 3, put("b"), output{revision: 4})}, porcupine.Illegal},
		"a value that nobody wrote":          {[]porcupine.Operation{call(0, 1, get, output{value: "a", revision: 5})}, porcupine.Illegal},
		"an unknown put that took effect":    {[]porcupine.Operation{call(0, 100, put("a"), output{unknown: true}), call(2, 3, get, output{value: "a", revision: 5})}, porcupine.Ok},
		"an unknown put that was taken back": {[]porcupine.Operation{call(0, 100, put("a"), output{unknown: true}), call(2, 3, get, output{value: "a", revision: 5}), call(4, 5, get, output{})}, porcupine.Illegal},
	} {
		result, err := decide(test.history, "")
		require.NoError(t, err)
		require.Equal(t, test.want, result, name)
	}
}

func TestHistoryLeavesOutOnlyWhatNobodyRead(t *testing.T) {
	h := newHistory()
	for i := range 3 {
		h.add(0, 0, input{put: true, key: "k", value: fmt.Sprint(i)}, output{unknown: i > 0})
	}
	h.add(0, 0, input{key: "k"}, output{value: "2", revision: 7})
	require.Len(t, h.relevant(), 3, "the unknown put of 1, which nobody read, is left out")
	h.saw("get", "k", "2", 7)
	h.saw("watch", "k", "3", 7)
	require.Len(t, h.mu.wrong, 1, "two values of one revision")
}

// TestNothingIsNoSuccess: a history without a write or without a read is linearizable, and shows nothing.
func TestNothingIsNoSuccess(t *testing.T) {
	r := &trial{history: newHistory(), tally: &Tally{}}
	for _, count := range []func(){func() {}, func() { r.tally.Written.Add(1) }} {
		count()
		var report Report
		require.NoError(t, r.judge(&report))
		require.ErrorIs(t, report.Wrong, errNothing)
		require.False(t, report.OK())
	}
	r.tally.Read.Add(1)
	var report Report
	require.NoError(t, r.judge(&report))
	require.True(t, report.OK())
}
