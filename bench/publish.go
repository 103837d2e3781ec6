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
	}
}

func rounds(o options) string {
	switch {
	case o.quick:
		return "1 or 2"
	case o.rounds == 0:
		return "2 to 5"
	}
	return fmt.Sprint(o.rounds)
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

// publish prints the tables and the targets, and writes the files. Those read from a file are not written again.
func publish(set *result.Set, o options, fresh bool) error {
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
	if o.results != "" && fresh {
		if err := writeResults(set, o, text.String()); err != nil {
			return err
		}
	}
	if kind(set.About) != "full" {
		return nil // the page and its plots are of full runs
	}
	if o.plots != "" {
		if err := chart.All(set, o.plots); err != nil {
			return err
		}
	}
	if o.page != "" {
		return writePage(o.page, set)
	}
	return nil
}

// kind says what a run is: a quick one, one of a part of the workloads or rounds, or a full one.
func kind(about map[string]string) string {
	switch {
	case about["quick"] == "true":
		return "quick"
	case about["only"] != "" || about["rounds"] == "1":
		return "partial"
	}
	return "full"
}

// writeResults keeps the full run apart from quick and partial ones, which must not replace it.
func writeResults(set *result.Set, o options, text string) error {
	name := kind(set.About)
	if err := os.MkdirAll(o.results, 0o755); err != nil {
		return err
	}
	files := map[string]func(io.Writer) error{
		".json": set.WriteJSON,
		".txt":  set.WriteBench,
		".md": func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "```\n%s```\n", text)
			return err
		},
	}
	for suffix, write := range files {
		if err := writeFile(filepath.Join(o.results, name+suffix), write); err != nil {
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
