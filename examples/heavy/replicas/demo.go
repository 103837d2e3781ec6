package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/delayedop/purgatory/examples/heavy/internal/children"
	"github.com/delayedop/purgatory/examples/internal/faultproxy"
)

// demo is what runDemo starts, and what the accidents happen to.
type demo struct {
	out      io.Writer
	server   engineServer        // of the engine
	proxies  []*faultproxy.Proxy // one for each replica's connections to the engine
	replicas []*process
	addrs    []string                       // of the replicas
	counted  map[*exec.Cmd]map[string]int64 // what each process of a replica has said last
	writer   *process
	puts     *io.PipeWriter // what the writers print
	polls    *polls
}

// accident is what happens at a step of the demo.
type accident struct {
	at   int
	what string
	do   func(d *demo) error
}

var accidents = []accident{
	{5, "every connection to the engine is cut", func(d *demo) error {
		for _, p := range d.proxies {
			p.Cut()
		}
		return nil
	}},
	{8, "the engine is killed, and started again", func(d *demo) error {
		d.server.kill()
		return d.server.start()
	}},
	{11, "replica 1 is killed", func(d *demo) error { d.replicas[0].kill(); return nil }},
	{12, "replica 1 is started again", func(d *demo) error { return d.replicas[0].start() }},
	{14, "the writer is killed, and another started", func(d *demo) error { d.writer.kill(); return d.writer.start() }},
	{16, "replica 2 is frozen", func(d *demo) error { d.replicas[1].signal(syscall.SIGSTOP); return nil }},
	{19, "replica 2 continues", func(d *demo) error { d.replicas[1].signal(syscall.SIGCONT); return nil }},
	{21, "replica 3 stops, and hands its waits back", func(d *demo) error { d.replicas[2].stop(); return d.replicas[2].start() }},
	{lastStep - 1, "the writer ends", func(d *demo) error { d.writer.stop(); return nil }},
}

const (
	// lastStep is the step after which the demo waits for the clients that are behind.
	lastStep = 24
	// patience is how long it waits for them.
	patience = time.Minute
)

// runDemo starts everything, has the accidents happen, and fails if a wait was lost. If ctx
// ends, it ends everything, and does not fail.
func runDemo(ctx context.Context, out io.Writer, arguments []string) error {
	if err := demonstrate(ctx, out, arguments); err != nil && ctx.Err() == nil {
		return err
	}
	return nil // what fails after the end of ctx fails because of it
}

func demonstrate(ctx context.Context, out io.Writer, arguments []string) error {
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	n := flags.Int("polls", 10_000, "number of long polls")
	keys := flags.Int("keys", 1000, "number of keys")
	step := flags.Duration("step", time.Second, "time between two lines; the accidents take 24 steps")
	engine := flags.String("engine", engineNATS, "where the state is: nats, subjects (hints on core NATS) or postgres")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if *n < 1 || *keys < 1 || *step <= 0 {
		return fmt.Errorf("%d polls, %d keys, %v between two lines: each must be positive", *n, *keys, *step)
	}
	dir, err := os.MkdirTemp("", "replicas")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	d := &demo{out: out, counted: make(map[*exec.Cmd]map[string]int64)}
	defer d.stop()
	addr, err := d.start(ctx, *engine, dir, *n, *keys)
	if err != nil {
		return err
	}
	within, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	for i := range *n {
		running.Go(func() { d.polls.run(within, i) })
	}
	if err := d.watch(ctx, *step); err != nil || ctx.Err() != nil || *engine == enginePostgres {
		return err
	}
	return showHole(ctx, out, addr, min(*n, 100))
}

// start starts everything but the polls. It returns the engine's address.
func (d *demo) start(ctx context.Context, engine, dir string, n, keys int) (addr string, err error) {
	var url func(addr string) string
	d.server, addr, url, err = startServer(ctx, engine, dir)
	if err != nil {
		return "", err
	}
	fmt.Fprintln(d.out, "A healthy run: polls are answered within milliseconds of a put, and again soon after each accident. On a busy machine they\n"+
		"are answered later, and some go to another replica. What counts is near the end: \"lost 0, answered twice 0\".")
	fmt.Fprintf(d.out, "     the engine is at %s\n", addr)
	for range 3 {
		if err := d.startReplica(ctx, engine, addr, url); err != nil {
			return "", err
		}
	}
	urls := make([]string, len(d.addrs))
	for i, addr := range d.addrs {
		urls[i] = "http://" + addr
	}
	d.polls = newPolls(n, keys, urls)
	reader, puts := io.Pipe()
	d.puts = puts
	go d.acknowledgements(reader)
	d.writer, err = startProcess(puts, "writer", "-replicas", strings.Join(urls, ","), "-keys", fmt.Sprint(keys))
	return addr, err
}

// startReplica starts a replica that reaches the engine by way of a proxy.
func (d *demo) startReplica(ctx context.Context, engine, engineAddr string, url func(addr string) string) error {
	p, err := faultproxy.Start(engineAddr)
	if err != nil {
		return err
	}
	d.proxies = append(d.proxies, p)
	addr, err := children.FreeAddr()
	if err != nil {
		return err
	}
	audit := "0" // where the commit is the hint, nothing may be lost without an audit either
	if engine == engineSubjects {
		audit = "5s"
	}
	r, err := startProcess(d.out, "replica", "-addr", addr, "-engine", engine, "-url", url(p.Addr()), "-audit", audit)
	if err != nil {
		return err
	}
	d.replicas, d.addrs = append(d.replicas, r), append(d.addrs, addr)
	if err := awaitAddr(ctx, addr, r.ended); err != nil {
		return err
	}
	fmt.Fprintf(d.out, "     replica %d is at http://%s\n", len(d.replicas), addr)
	return nil
}

// acknowledgements reads what writers print.
func (d *demo) acknowledgements(from io.Reader) {
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		var key int
		var revision int64
		if n, _ := fmt.Sscan(lines.Text(), &key, &revision); n == 2 {
			d.polls.acknowledge(key, revision)
		}
	}
}

// watch prints a line a step, has the accidents happen, and says what was lost.
func (d *demo) watch(ctx context.Context, step time.Duration) error {
	var idle, cut []time.Duration
	var deadline time.Time
	tick := time.NewTicker(step)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		took := d.polls.takeTimes()
		switch {
		case n > 2 && n <= 5:
			idle = append(idle, took...)
		case n == 6:
			cut = took
		}
		stats := d.stats(ctx, time.Second) // one of them may be frozen
		late := "nobody was answered"
		if len(took) > 0 {
			late = fmt.Sprintf("put to answer p50 %-9v p99 %v", quantile(took, 0.5), quantile(took, 0.99))
		}
		fmt.Fprintf(d.out, "%3d  %6d waiting  %7d answered  %-43s  %2d gaps  %2d re-checks\n", n, d.polls.waiting.Load(),
			d.polls.answered.Load(), late, stats["gaps"], stats["rechecks"])
		if n == lastStep-1 {
			d.polls.awaitPuts(ctx, lastStep)
		}
		for _, a := range accidents {
			if a.at != n {
				continue
			}
			fmt.Fprintf(d.out, "     %s\n", a.what)
			if err := a.do(d); err != nil {
				return fmt.Errorf("%s: %w", a.what, err)
			}
		}
		if n == lastStep {
			deadline = time.Now().Add(patience)
		}
		if n >= lastStep && (d.polls.behind() == 0 || time.Now().After(deadline)) {
			break
		}
	}
	lost, twice := d.polls.behind(), d.polls.twice.Load()
	slices.Sort(idle)
	stats := d.stats(ctx, patience)
	fmt.Fprintf(d.out, "%d polls, %d answered, %d went elsewhere; put to answer: idle p50 %v p99 %v, after a cut p99 %v; %d gaps, %d re-checks, %d bulk reads; lost %d, answered twice %d\n",
		len(d.polls.seen), d.polls.answered.Load(), d.polls.failures.Load(), quantile(idle, 0.5), quantile(idle, 0.99), quantile(cut, 0.99),
		stats["gaps"], stats["rechecks"], stats["reads"], lost, twice)
	puts, keys := d.polls.written()
	return verdict(len(d.polls.seen), d.polls.keys, puts, keys, int(d.polls.answered.Load()), lost, int(twice))
}

// verdict returns why a demo has failed. That no wait was lost says nothing where nothing was
// written, or nobody was answered.
func verdict(polls, keys, puts, written, answered, lost, twice int) error {
	switch {
	case puts < lastStep:
		return fmt.Errorf("the writer made no progress: %d puts were acknowledged, expected one for each step at least", puts)
	case written < min(keys, puts)/4:
		return fmt.Errorf("puts to %d of %d keys were acknowledged, expected a quarter at least", written, keys)
	case answered == 0 || answered < polls*written/keys:
		return fmt.Errorf("%d polls were answered %d times, although %d of %d keys were written", polls, answered, written, keys)
	case lost > 0 || twice > 0:
		return fmt.Errorf("%d waits were lost, and %d answered twice", lost, twice)
	}
	return nil
}

// stats sums over the replicas. One that does not answer within limit, or has ended, counts with what it said last.
func (d *demo) stats(ctx context.Context, limit time.Duration) map[string]int64 {
	for i, addr := range d.addrs {
		if numbers := statsOf(ctx, addr, limit); numbers != nil {
			d.counted[d.replicas[i].command] = numbers
		}
	}
	sum := make(map[string]int64)
	for _, numbers := range d.counted {
		for name, n := range numbers {
			sum[name] += n
		}
	}
	return sum
}

// stop ends every process that start has started.
func (d *demo) stop() {
	if d.writer != nil {
		d.writer.stop()
	}
	if d.puts != nil {
		d.puts.Close()
	}
	if d.polls != nil {
		d.polls.transport.CloseIdleConnections()
	}
	for _, r := range d.replicas {
		r.stop()
	}
	for _, p := range d.proxies {
		p.Close()
	}
	if d.server != nil {
		d.server.stop()
	}
}
