package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/cpuid/v2"

	"github.com/delayedop/purgatory/bench/result"
	"github.com/delayedop/purgatory/bench/workload"
)

// about describes the run: what it ran on, with what, how.
func about(o options) map[string]string {
	rounds := "2 to 4"
	if o.rounds > 0 {
		rounds = fmt.Sprint(o.rounds)
	}
	return map[string]string{
		"commit": commit(),
		"date":   time.Now().UTC().Format("2006-01-02 15:04 MST"),
		"go":     runtime.Version(),
		"goos":   runtime.GOOS,
		"goarch": runtime.GOARCH,
		"cpu":    cpuid.CPU.BrandName,
		"procs":  fmt.Sprint(runtime.GOMAXPROCS(0)),
		"rounds": rounds,
		"only":   o.only.String(),
		"window": o.window.String(),
		"quick":  strconv.FormatBool(o.quick),
		"custom": strconv.FormatBool(o.custom),
	}
}

// commit names the code that is measured; nothing where git does not know.
func commit() string {
	out, _ := exec.Command("git", "describe", "--always", "--dirty", "--exclude=*").Output()
	return strings.TrimSpace(string(out))
}

// publish prints the tables and writes the files: each kind of run has a folder of its own.
func publish(set *result.Set, o options) error {
	var workloads []result.Workload
	for _, f := range workload.Families() {
		workloads = append(workloads, f.Workloads...)
	}
	var text strings.Builder
	if err := set.WriteTables(io.MultiWriter(os.Stdout, &text), workloads); err != nil {
		return err
	}
	if o.results == "" {
		return nil
	}
	if err := writeResults(set, filepath.Join(o.results, kindOf(set.About)), text.String()); err != nil {
		return err
	}
	if o.repository != "" && kindOf(set.About) == full {
		return writePages(o.repository, set)
	}
	return nil
}

// full is the kind of run that the pages are about.
const full = "full"

// kindOf says what a run is: one with options of its own, a quick or a full one.
func kindOf(about map[string]string) string {
	switch {
	case about["custom"] == "true":
		return "custom"
	case about["quick"] == "true":
		return "quick"
	}
	return full
}

func writeResults(set *result.Set, folder, text string) error {
	var samples bytes.Buffer
	return errors.Join(
		os.MkdirAll(folder, 0o755),
		set.WriteJSON(&samples),
		os.WriteFile(filepath.Join(folder, "samples.json"), samples.Bytes(), 0o644),
		os.WriteFile(filepath.Join(folder, "tables.md"), fmt.Appendf(nil, "Commit %s, %s.\n\n```\n%s```\n", set.About["commit"], set.About["date"], text), 0o644),
	)
}
