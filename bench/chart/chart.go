// Package chart draws the plots of a run.
package chart

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"gonum.org/v1/plot"

	"github.com/delayedop/purgatory/bench/result"
)

// All draws every plot that the set has samples for into a folder, and removes the others from it.
func All(set *result.Set, folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	charts := []struct {
		file string
		draw func(*result.Set) (*plot.Plot, error)
	}{
		{"cost-over-pending.svg", costOverPending},
		{"lateness-timers.svg", latenessOf("T2", "G=1/N=1000000", "1,000,000 timers expiring within a second")},
		{"lateness-operations.svg", latenessOf("P6", "G=1/N=1000000", "1,000,000 operations expiring within a second")},
		{"lateness-probes.svg", latenessOf("P8", "G=1/P=1000000", "probes beside a busy purgatory with 1,000,000 pending")},
		{"memory-per-request.svg", memory},
		{"step-over-waiters.svg", stepOverWaiters},
		{"life.svg", life},
	}
	for _, c := range charts {
		p, err := c.draw(set)
		if err != nil {
			return fmt.Errorf("%s: %w", c.file, err)
		}
		path := filepath.Join(folder, c.file)
		if p == nil { // not measured in this run; one of an earlier run would be taken for it
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			continue
		}
		if err := save(p, path); err != nil {
			return err
		}
	}
	return nil
}

func peersOf(set *result.Set, workload, params string) []string {
	return result.Unique(set.Samples, func(s result.Sample) (string, bool) {
		return s.Peer, s.Workload == workload && strings.HasPrefix(s.Params, params)
	})
}
