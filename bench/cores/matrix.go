package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/klauspost/cpuid/v2"
)

// matrix is what is sent in.
type matrix struct {
	CPU, Go, OS, Revision, Date string
	Processors                  int
	Line                        float64 // ns that a cache line takes from one processor to another; 0: not known
	Rows                        []row
}

// row is a workload with so many processors.
type row struct {
	Load       string
	Processors int
	Rate       float64 // operations in a second
	LockWait   float64 // seconds that goroutines wait for locks, in a second of a processor
	Slices     int     // of a quarter of a millisecond, that the row comes from; below 100 it is a guess
}

func measureMatrix(only *regexp.Regexp, d, most time.Duration, progress io.Writer) matrix {
	all := runtime.NumCPU()
	m := matrix{
		CPU: cpuid.CPU.BrandName, Go: runtime.Version(), OS: runtime.GOOS + "/" + runtime.GOARCH, Revision: revision(),
		Date: time.Now().UTC().Format(time.DateOnly), Processors: all,
	}
	if all > 1 {
		if ns, ok := timeLine(most / 10); ok {
			m.Line = ns
		}
	}
	var procs []int
	for n := 1; n < all; n *= 2 {
		procs = append(procs, n)
	}
	procs = append(procs, all)
	var rows []load
	for _, l := range loads() {
		if only.MatchString(l.name) {
			rows = append(rows, l)
		}
	}
	windows := make([][]window, len(rows)*len(procs))
	for round, begun := 1, time.Now(); round == 1 || time.Since(begun) < most; round++ {
		fmt.Fprintf(progress, "round %d, after %s\n", round, time.Since(begun).Round(time.Second))
		for i := range windows { // in turns, so that what slows the machine down for a while slows all
			windows[i] = append(windows[i], rows[i/len(procs)].sample(procs[i%len(procs)], d)...)
		}
	}
	for i := range windows {
		f := typical(windows[i])
		m.Rows = append(m.Rows, row{rows[i/len(procs)].name, procs[i%len(procs)], f.rate, f.lockWait, f.slices})
	}
	return m
}

// sample runs l in a world of its own, for some windows; the first one is thrown away.
func (l load) sample(procs int, d time.Duration) (windows []window) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
	w := l.make(procs)
	defer w.end()
	for range 4 {
		windows = append(windows, aWindow(w.goroutines, max(w.least, d), w.streamOf, w.run))
	}
	return windows[1:]
}

func revision() string {
	info, _ := debug.ReadBuildInfo()
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return "unknown"
}

func (m *matrix) save(name string) error {
	text, err := json.MarshalIndent(m, "", "\t")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, append(text, '\n'), 0o644)
}

func readMatrix(name string) (m matrix, err error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return m, err
	}
	return m, json.Unmarshal(text, &m)
}

// rate returns the row of a load with so many processors.
func (m *matrix) row(load string, procs int) (r row, ok bool) {
	for _, r := range m.Rows {
		if r.Load == load && r.Processors == procs {
			return r, true
		}
	}
	return r, false
}

// write prints ns for an operation with one processor, and for more the ratio of the rates, with the share of lock waits.
func (m *matrix) write(w io.Writer) {
	fmt.Fprintf(w, "%s, %d processors, %s, %s; a line moves in %.0f ns\n", m.CPU, m.Processors, m.Go, m.OS, m.Line)
	for _, l := range loads() {
		one, ok := m.row(l.name, 1)
		if !ok {
			continue
		}
		cells := []string{fmt.Sprintf("%-18s %8.0f ns %4.0f%%", l.name, 1e9/one.Rate, 100*one.LockWait)}
		for n := 2; n <= m.Processors; n++ {
			if r, ok := m.row(l.name, n); ok {
				cells = append(cells, fmt.Sprintf("%d: %5.2f %4.0f%%", n, r.Rate/one.Rate, 100*r.LockWait))
			}
		}
		fmt.Fprintln(w, strings.Join(cells, "   "))
	}
}
