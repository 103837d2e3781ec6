package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"time"

	"github.com/delayedop/purgatory/bench/chart"
	"github.com/delayedop/purgatory/bench/result"
	"github.com/delayedop/purgatory/bench/target"
	"github.com/delayedop/purgatory/bench/workload"
)

// about describes the run: what it ran on, with what, how.
func about(o options) map[string]string {
	return map[string]string{
		"date":     time.Now().UTC().Format("2006-01-02 15:04 MST"),
		"go":       runtime.Version(),
		"goos":     runtime.GOOS,
		"goarch":   runtime.GOARCH,
		"cpu":      processor(),
		"procs":    fmt.Sprint(runtime.GOMAXPROCS(0)),
		"rounds":   rounds(o),
		"only":     o.only,
		"window":   o.window.String(),
		"quick":    fmt.Sprint(o.quick),
		"complete": fmt.Sprint(o.complete),
		"custom":   fmt.Sprint(o.custom),
	}
}

func rounds(o options) string {
	switch {
	case o.quick:
		return "1 or 2"
	case o.rounds > 0:
		return fmt.Sprint(o.rounds)
	case o.complete:
		return "2 to 5"
	}
	return "1 to 5"
}

// processor names the processor as `go test -bench` does on Linux.
func processor() string {
	b, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(b)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

// publish prints the tables and the targets, and writes the files: each kind of run has a folder of its own. The plots of
// samples that were read from a file are drawn beside it.
func publish(set *result.Set, o options) error {
	headings := map[string]result.Heading{}
	for _, f := range slices.Concat(workload.Families(), workload.OnRequest()) {
		for _, w := range f.Workloads {
			headings[w.Name] = result.Heading{Title: w.Title, Bases: w.Bases, Ratio: w.Ratio}
		}
	}
	var text strings.Builder
	out := io.MultiWriter(os.Stdout, &text)
	if err := set.WriteTables(out, headings); err != nil {
		return err
	}
	if err := target.Write(out, set); err != nil {
		return err
	}
	if o.results == "" {
		return nil
	}
	folder := filepath.Join(o.results, kindOf(set.About))
	if o.report != "" {
		folder = filepath.Dir(o.report)
	} else if err := writeResults(set, folder, text.String()); err != nil {
		return err
	}
	if err := chart.All(set, folder); err != nil {
		return err
	}
	if o.repository != "" && folder == filepath.Join(o.results, complete) {
		return writePages(o.repository, set)
	}
	return nil
}

// complete is the kind of run that the pages are about.
const complete = "complete"

// kindOf says what a run is: one with options of its own, a quick, a complete or a full one.
func kindOf(about map[string]string) string {
	switch {
	case about["custom"] == "true":
		return "custom"
	case about["quick"] == "true":
		return "quick"
	case about["complete"] == "true":
		return complete
	}
	return "full"
}

func writeResults(set *result.Set, folder, text string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	files := map[string]func(io.Writer) error{
		"samples.json":  set.WriteJSON,
		"benchstat.txt": set.WriteBench,
		"tables.md": func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "```\n%s```\n", text)
			return err
		},
	}
	for name, write := range files {
		if err := writeFile(filepath.Join(folder, name), write); err != nil {
			return err
		}
	}
	return nil
}

func writeFile(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

func startProfile(path string) (stop func(), err error) {
	if path == "" {
		return func() {}, nil
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, err
	}
	return func() {
		pprof.StopCPUProfile()
		f.Close()
	}, nil
}
