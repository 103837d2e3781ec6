package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/delayedop/purgatory/examples/heavy/replicas/store"
	"github.com/delayedop/purgatory/examples/internal/faultproxy"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/signals"
)

// runFigures prints, for each engine, how long a wait in this process sleeps on after a put
// by another process: when nothing else happens, and when the connection that carries the
// hints is cut just before the put. There is one wait and one put at a time. The wait reads
// the state over a connection that is not cut.
func runFigures(ctx context.Context, out io.Writer, arguments []string) error {
	flags := flag.NewFlagSet("figures", flag.ContinueOnError)
	puts := flags.Int("puts", 2000, "number of puts while nothing else happens")
	cuts := flags.Int("cuts", 200, "number of cuts, each followed by a put")
	engine := flags.String("engine", "", "nats, subjects or postgres; default: each of them")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	engines := []string{engineNATS, engineSubjects, enginePostgres}
	if *engine != "" {
		engines = []string{*engine}
	}
	for _, engine := range engines {
		switch err := measure(ctx, out, engine, *puts, *cuts); {
		case errors.Is(err, errNoPostgres) && len(engines) > 1:
			fmt.Fprintf(out, "%-8s  SKIPPED: %v\n", engine, err)
		case err != nil:
			return fmt.Errorf("%s: %w", engine, err)
		}
	}
	return nil
}

func measure(ctx context.Context, out io.Writer, engine string, puts, cuts int) error {
	dir, err := os.MkdirTemp("", "figures")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	server, addr, url, err := startServer(ctx, engine, dir)
	if err != nil {
		return err
	}
	defer server.stop()
	m, err := newMeter(ctx, engine, addr, url)
	if err != nil {
		return err
	}
	defer m.close()
	idle, err := m.turns(ctx, puts, func() {})
	if err != nil {
		return err
	}
	cut, err := m.turns(ctx, cuts, m.proxy.Cut)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%-8s  idle, %d puts: acknowledged to awake p50 %v p99 %v, sent to answer p50 %v p99 %v\n", engine, puts,
		quantile(idle.acknowledged, 0.5), quantile(idle.acknowledged, 0.99), quantile(idle.answered, 0.5), quantile(idle.answered, 0.99))
	fmt.Fprintf(out, "%-8s  %d cuts: cut to awake p50 %v p99 %v; %d gaps\n", engine, cuts,
		quantile(cut.awake, 0.5), quantile(cut.awake, 0.99), m.hints.Stats().Gaps)
	return nil
}

// meter is a wait in this process, and a writer in another.
type meter struct {
	proxy          *faultproxy.Proxy
	hearing, reads store.Store
	waits          *purgatory.Purgatory[string]
	hints          *signals.Runner[string]
	stop           func()
	writer         *process
	keys           *io.PipeWriter // what the writer puts to
	lines          *bufio.Scanner // what it prints
	revision       int64
}

func newMeter(ctx context.Context, engine, addr string, url func(addr string) string) (m *meter, err error) {
	m = &meter{stop: func() {}}
	defer func() {
		if err != nil {
			m.close()
		}
	}()
	if m.proxy, err = faultproxy.Start(addr); err != nil {
		return m, err
	}
	if m.hearing, err = openStore(ctx, engine, url(m.proxy.Addr()), nil); err != nil {
		return m, err
	}
	if m.reads, err = openStore(ctx, engine, url(addr), nil); err != nil {
		return m, err
	}
	if m.waits, err = purgatory.New[string]("figures"); err != nil {
		return m, err
	}
	m.hints, err = signals.To(m.waits, signals.WithAudit(30*time.Second), signals.WithBackoff(10*time.Millisecond, 100*time.Millisecond))
	if err != nil {
		return m, err
	}
	within, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { _ = m.hints.Run(within, m.hearing.Source()) })
	m.stop = func() { cancel(); running.Wait() }
	if err := until(ctx, func() bool { return m.hints.Stats().Standing }); err != nil {
		return m, err
	}
	lines, printed := io.Pipe()
	if m.writer, err = newProcess(printed, "put", "-engine", engine, "-url", url(addr)); err != nil {
		return m, err
	}
	m.writer.in, m.keys = io.Pipe()
	m.lines = bufio.NewScanner(lines)
	if err := m.writer.start(); err != nil {
		return m, err
	}
	go func() { m.writer.await(); printed.Close() }()
	return m, nil
}

func (m *meter) close() {
	if m.keys != nil {
		m.keys.Close() // the writer ends at the end of its input
		m.writer.await()
	}
	m.stop()
	if m.waits != nil {
		_ = m.waits.Close()
	}
	for _, s := range []store.Store{m.hearing, m.reads} {
		if s != nil {
			s.Close()
		}
	}
	if m.proxy != nil {
		m.proxy.Close()
	}
}

// times are of several turns, sorted.
type times struct {
	acknowledged []time.Duration // from the put's acknowledgement until the wait's goroutine was awake
	answered     []time.Duration // from when the put was sent until the wait had read the state
	awake        []time.Duration // from the accident until the wait's goroutine was awake
}

// turns makes n turns: a wait begins, the accident happens, another process puts, and the
// wait ends.
func (m *meter) turns(ctx context.Context, n int, accident func()) (t times, err error) {
	for range n {
		within, cancel := context.WithTimeoutCause(ctx, time.Minute, errors.New("a wait was lost"))
		err := m.turn(within, &t, accident)
		cancel()
		if err != nil {
			return t, err
		}
	}
	for _, d := range [][]time.Duration{t.acknowledged, t.answered, t.awake} {
		slices.Sort(d)
	}
	return t, nil
}

func (m *meter) turn(ctx context.Context, t *times, accident func()) error {
	const key = "figure"
	var reads atomic.Int64
	var awake, answered time.Time
	ended := make(chan error, 1)
	go func() {
		_, err := signals.AwaitRead(ctx, m.waits, time.Hour, func(ctx context.Context) (store.Entry, bool, error) {
			awake = time.Now()
			e, err := m.reads.Get(ctx, key)
			reads.Add(1)
			return e, e.Revision > m.revision, err
		}, key)
		answered = time.Now()
		ended <- err
	}()
	if err := until(ctx, func() bool { return reads.Load() > 0 }); err != nil {
		return err
	}
	accident()
	happened := time.Now()
	if _, err := fmt.Fprintln(m.keys, key); err != nil {
		return err
	}
	if !m.lines.Scan() {
		return errors.New("the writer has ended")
	}
	var sent, acknowledged, revision int64
	if _, err := fmt.Sscan(m.lines.Text(), &sent, &acknowledged, &revision); err != nil {
		return err
	}
	if err := <-ended; err != nil {
		return err
	}
	m.revision = revision
	t.acknowledged = append(t.acknowledged, awake.Sub(time.Unix(0, acknowledged)))
	t.answered = append(t.answered, answered.Sub(time.Unix(0, sent)))
	t.awake = append(t.awake, awake.Sub(happened))
	return nil
}
