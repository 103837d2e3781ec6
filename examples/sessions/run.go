package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"github.com/delayedop/purgatory/examples/internal/debugserver"
	"github.com/delayedop/purgatory/purgatory"
)

// settleTime bounds the wait for the last silent sessions to be found, beyond their timeout.
const settleTime = 30 * time.Second

// crowd is all sessions of a run, and who has them speak.
type crowd struct {
	cfg         config
	registry    *registry
	run         *observed
	sessions    []*session
	silent      int
	beaters     []*beater
	daredevil   *daredevil
	interrupted bool

	opened time.Duration // how long it took to open the sessions
	bytes  int64         // of memory for all of them
}

// keepSessions runs the sessions and returns which promises were broken.
func keepSessions(ctx context.Context, cfg config, out io.Writer) (broken []string, err error) {
	page, err := debugserver.Serve(cfg.debugAddr)
	if err != nil {
		return nil, err
	}
	defer page.Stop()
	page.Announce(out)
	registry, err := purgatory.New[sessionID]("session", page.Options()...)
	if err != nil {
		return nil, err
	}
	page.Add(registry)
	c := &crowd{cfg: cfg, registry: registry, run: &observed{start: time.Now()}}
	fmt.Fprintf(out, "%d sessions, timeout %v, a heartbeat each %v; %d %% fall silent, %d %% speak just at their deadline; %v\n",
		cfg.sessions, cfg.timeout, cfg.heartbeat, cfg.silent, cfg.daring, cfg.duration)
	if err := c.open(); err != nil {
		return nil, errors.Join(err, registry.Close())
	}
	c.live(ctx, out)
	for _, s := range c.sessions {
		s.leave(registry)
	}
	stopping, cancel := context.WithTimeout(context.Background(), settleTime)
	defer cancel()
	err = registry.Shutdown(stopping)
	c.report(out)
	broken = c.verify()
	if len(broken) == 0 {
		fmt.Fprintln(out, "each session ended exactly once: every silent one was found, none that spoke in time was lost")
	}
	return broken, err
}

// open makes and opens the sessions, and deals them out to those who have them speak.
func (c *crowd) open() error {
	random := rand.New(rand.NewPCG(c.cfg.seed, 0))
	before := memory()
	c.sessions = make([]*session, c.cfg.sessions)
	c.silent = c.cfg.sessions * c.cfg.silent / 100
	for i := range c.sessions {
		s := &session{run: c.run, id: sessionID(i), lastWords: talkative}
		if i < c.silent {
			s.lastWords = time.Duration(random.Int64N(int64(c.cfg.duration - c.cfg.timeout)))
		}
		c.sessions[i] = s
	}
	opening := c.run.now()
	for _, s := range c.sessions {
		if err := s.open(c.registry, c.cfg.timeout); err != nil {
			return err
		}
	}
	c.opened = c.run.now() - opening
	c.bytes = memory() - before

	daring := c.cfg.sessions * c.cfg.daring / 100
	c.daredevil = &daredevil{registry: c.registry, run: c.run, cfg: c.cfg, sessions: c.sessions[c.silent : c.silent+daring : c.silent+daring]}
	others := append(c.sessions[:c.silent:c.silent], c.sessions[c.silent+daring:]...)
	others = shuffled(others, random)
	for i := range c.cfg.beaters {
		from, to := i*len(others)/c.cfg.beaters, (i+1)*len(others)/c.cfg.beaters
		c.beaters = append(c.beaters, &beater{registry: c.registry, run: c.run, cfg: c.cfg, sessions: others[from:to]})
	}
	return nil
}

// memory is how many bytes of the heap are in use.
func memory() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// live has the sessions speak for the run's duration and, unless ctx ends, until the last silent one has been found.
func (c *crowd) live(ctx context.Context, out io.Writer) {
	speaking, hush := context.WithCancel(ctx)
	defer hush()
	var running sync.WaitGroup
	for _, b := range c.beaters {
		running.Go(func() { b.beat(speaking) })
	}
	running.Go(func() { c.daredevil.beat(speaking, rand.New(rand.NewPCG(c.cfg.seed, 1))) })

	every := time.NewTicker(time.Second)
	defer every.Stop()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for !c.settled() {
		select {
		case <-ctx.Done():
			c.interrupted = true
			fmt.Fprintln(out, "interrupted: those who are silent by now may not have been found yet")
			hush()
			running.Wait()
			return
		case <-every.C:
			c.progress(out)
		case <-look.C:
		}
	}
	hush()
	running.Wait()
}

// settled reports whether the time is up and every silent session has been found, or will not be any more.
func (c *crowd) settled() bool {
	now := c.run.now()
	return now >= c.cfg.duration && (int(c.run.silentFound.Load()) == c.silent || now >= c.cfg.duration+settleTime)
}
