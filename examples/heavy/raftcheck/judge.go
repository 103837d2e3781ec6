package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/delayedop/purgatory/examples/heavy/raftcheck/cluster"
)

// finish waits until the cluster is whole, reads what the last writes have left, and stops it.
func (r *trial) finish(ctx context.Context, report *Report) {
	r.tally.wrote(r.history.now()) // ends the last gap; not a write
	r.tally.Written.Add(-1)
	if report.Wrong == nil {
		report.Wrong = ready(ctx, r.cluster)
	}
	last := &caller{number: r.cfg.Clients, nodes: r.targets, history: r.history, tally: r.tally, hangUp: hangUp}
	for second := range int64(r.cfg.Duration/epoch) + 1 {
		for k := range keysAtATime {
			last.get(ctx, r.targets()[int(second)%members], fmt.Sprintf("k%d.%d", second, k))
		}
	}
	for _, m := range r.cluster.Members {
		if !m.Started() {
			continue
		}
		left, restored, err := settled(ctx, m)
		report.Left += left
		report.Restored += restored
		report.Wrong = errors.Join(report.Wrong, err)
	}
	report.Wrong = errors.Join(report.Wrong, r.cluster.Died(), r.cluster.Stop())
}

// settled returns how many waits a member has left when all calls have ended. The node's own rounds may need a moment.
func settled(ctx context.Context, m *cluster.Member) (left int, restored int64, err error) {
	until := time.Now().Add(10 * time.Second)
	for {
		asking, cancel := context.WithTimeout(ctx, 10*time.Second)
		s, err := m.Client.Status(asking)
		cancel()
		if err != nil {
			return 0, 0, fmt.Errorf("%s: %w", m.ID, err)
		}
		if s.Waiting == 0 || time.Now().After(until) {
			return s.Waiting, s.Restored, nil
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// judge has the history checked.
func (r *trial) judge(report *Report) error {
	all := r.history.relevant()
	report.Operations = len(all)
	drawing := ""
	if r.cfg.Drawings != "" {
		if err := os.MkdirAll(r.cfg.Drawings, 0o755); err != nil {
			return err
		}
		drawing = filepath.Join(r.cfg.Drawings, fmt.Sprintf("seed-%d%s.html", r.cfg.Seed, dash(r.cfg.Defect)))
	}
	var err error
	report.Linearizable, err = decide(all, drawing)
	if report.Linearizable == porcupine.Illegal {
		report.Drawing = drawing
	}
	report.Wrong = errors.Join(append(r.history.mu.wrong, report.Wrong)...)
	if r.tally.Written.Load() == 0 || r.tally.Read.Load() == 0 {
		report.Wrong = errors.Join(report.Wrong, errNothing)
	}
	return err
}

func dash(s string) string {
	if s == "" {
		return ""
	}
	return "-" + s
}

func faultCounts(done map[Fault]int) string {
	var parts []string
	for _, f := range AllFaults {
		if done[f] > 0 {
			parts = append(parts, f.count(done[f]))
		}
	}
	return strings.Join(parts, ", ")
}
