// Neighbours runs what other servers have for the same purpose beside the purgatory,
// through one small adapter, and prints tables in markdown:
//
//	make neighbours
//
// The neighbours come from their published modules: the notifier that wakes Temporal's
// long polls for a workflow's history, and etcd's Wait and WaitTime. Kubernetes' watch
// cache does not export its waiting, so that a sync.Cond used in the same way stands for
// it. README.md has the results.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// plan is how much is measured.
type plan struct {
	waiters []int
	budget  time.Duration // for each figure; but no fewer than three rounds
	burst   int           // keys
	lasts   int           // keys
	results int           // for each figure
}

func main() {
	budget := flag.Duration("budget", 300*time.Millisecond, "time for each figure")
	flag.Parse()
	start := time.Now()
	err := run(os.Stdout, plan{waiters: []int{1, 100, 10_000, 100_000}, budget: *budget, burst: 50_000, lasts: 1000, results: 100_000})
	if err != nil {
		fmt.Fprintln(os.Stderr, "neighbours:", err)
		os.Exit(1)
	}
	fmt.Printf("\n%s, %s/%s, GOMAXPROCS %d, %.0f s.\n",
		runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0), time.Since(start).Seconds())
}

func run(w io.Writer, p plan) error {
	if err := waits(w, p); err != nil {
		return err
	}
	return oneResult(w, p)
}

// waits prints the table of those that wait for positions.
func waits(w io.Writer, p plan) error {
	var rows [][]string
	row := func(name string) int {
		rows = append(rows, []string{name})
		return len(rows) - 1
	}
	header := []string{""}
	for _, m := range makers {
		header = append(header, m.name)
	}
	add := func(at int, cell string) { rows[at] = append(rows[at], cell) }

	for _, n := range p.waiters {
		elapsed, allocations := row(fmt.Sprintf("wake %s on one key: time for each", count(n))), row("— allocations for each wait")
		for _, m := range makers {
			f, err := wakeAll(m, n, p.budget)
			if err != nil {
				return fmt.Errorf("%s, wake %d: %w", m.name, n, err)
			}
			add(elapsed, f.cell(short(f.elapsed)))
			add(allocations, f.cell(fmt.Sprintf("%.1f", f.allocations)))
		}
	}
	for _, n := range p.waiters {
		elapsed, cpu := row(fmt.Sprintf("one step, %s wait for one each: until it is awake", count(n))), row("— processor time of the step")
		for _, m := range makers {
			f, err := oneStep(m, n, p.budget)
			if err != nil {
				return fmt.Errorf("%s, step among %d: %w", m.name, n, err)
			}
			add(elapsed, f.cell(short(f.elapsed)))
			add(cpu, f.cell(short(f.cpu)))
		}
	}
	for _, lost := range []struct {
		name            string
		keys, positions int
		pause           time.Duration
	}{
		{"lost: a burst, one on each of %s keys", p.burst, 1, 0},
		{"lost: the last of ten at once on a key, %s times", p.lasts, 10, 100 * time.Microsecond},
	} {
		at := row(fmt.Sprintf(lost.name, count(lost.keys)))
		for _, m := range makers {
			n, err := burst(m, lost.keys, lost.positions, lost.pause)
			if err != nil {
				return fmt.Errorf("%s, burst: %w", m.name, err)
			}
			add(at, count(n))
		}
	}
	table(w, header, rows)
	return nil
}

// oneResult prints the table of those that wait for a result by its id.
func oneResult(w io.Writer, p plan) error {
	header := []string{"One result by its id"}
	rows := [][]string{{"on one goroutine"}, {"— allocations"}, {"from another goroutine"}, {"— allocations"}}
	for _, m := range resultMakers {
		header = append(header, m.name)
		for i, measure := range []func(results, int) (figures, bool){sameGoroutine, otherGoroutine} {
			if i == 0 && m.blocks {
				rows[0], rows[1] = append(rows[0], "n/a"), append(rows[1], "n/a")
				continue
			}
			var best figures
			for range 5 {
				r := m.make()
				runtime.GC()
				f, right := measure(r, p.results)
				r.Close()
				if !right {
					return fmt.Errorf("%s: a wrong result", m.name)
				}
				if best.elapsed == 0 || f.elapsed < best.elapsed {
					best = f
				}
			}
			rows[2*i] = append(rows[2*i], short(best.elapsed))
			rows[2*i+1] = append(rows[2*i+1], fmt.Sprintf("%.1f", best.allocations))
		}
	}
	fmt.Fprintln(w)
	table(w, header, rows)
	return nil
}

// cell is a figure, and how many notifications were lost while it was measured.
func (f figures) cell(text string) string {
	switch {
	case f.lost == 0:
		return text
	case f.elapsed == 0:
		return count(f.lost) + " lost"
	default:
		return fmt.Sprintf("%s, %s lost", text, count(f.lost))
	}
}

func table(w io.Writer, header []string, rows [][]string) {
	rule := "|" + strings.Repeat(" --- |", len(header))
	fmt.Fprintf(w, "| %s |\n%s\n", strings.Join(header, " | "), rule)
	for _, r := range rows {
		fmt.Fprintf(w, "| %s |\n", strings.Join(r, " | "))
	}
}

// short is a duration with two or three digits.
func short(d time.Duration) string {
	switch {
	case d < time.Microsecond:
		return fmt.Sprintf("%d ns", d.Nanoseconds())
	case d < 100*time.Microsecond:
		return fmt.Sprintf("%.1f µs", float64(d.Nanoseconds())/1e3)
	case d < time.Millisecond:
		return fmt.Sprintf("%.0f µs", float64(d.Nanoseconds())/1e3)
	default:
		return fmt.Sprintf("%.1f ms", float64(d.Nanoseconds())/1e6)
	}
}

// count is a number with commas.
func count(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%s,%03d", count(n/1000), n%1000)
}
