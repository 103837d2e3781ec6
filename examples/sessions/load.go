package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/delayedop/purgatory/examples/internal/debugserver"
	"github.com/delayedop/purgatory/examples/internal/program"
	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

func main() { program.Main(run) }

// run ends with status 1 if a silent session was not found, or found twice, if one that spoke in time was, or if none spoke.
func run(ctx context.Context, args []string, out, errs io.Writer) int {
	cfg, err := parseFlags(args, errs)
	if err == nil {
		err = keepSessions(ctx, cfg, out)
	}
	return program.Status("sessions", err, errs)
}

// config is what the flags say, checked.
type config struct {
	sessions, silent, daring     int // silent and daring: percent
	timeout, heartbeat, duration time.Duration
	debugAddr                    string
}

func parseFlags(args []string, errs io.Writer) (c config, err error) {
	f := flag.NewFlagSet("sessions", flag.ContinueOnError)
	f.IntVar(&c.sessions, "sessions", 200_000, "`number` of sessions")
	f.DurationVar(&c.timeout, "timeout", 3*time.Second, "`duration` after its last heartbeat at which a session is found to be silent")
	f.DurationVar(&c.heartbeat, "heartbeat", time.Second, "`duration` between two heartbeats of a session")
	f.IntVar(&c.silent, "silent", 5, "`percent` of the sessions that fall silent")
	f.IntVar(&c.daring, "daring", 1, "`percent` of the sessions that send each heartbeat just when their timeout passes")
	f.DurationVar(&c.duration, "duration", 8*time.Second, "`duration` of the run; the last session falls silent one timeout before its end")
	debugserver.Flag(f, &c.debugAddr)
	err = program.Parse(f, args, errs, func() error {
		return errors.Join(
			program.Within("sessions", c.sessions, 1, 10_000_000),
			program.Within("timeout", c.timeout, 10*time.Millisecond, time.Hour),
			program.Within("heartbeat", c.heartbeat, time.Millisecond, max(time.Millisecond, c.timeout/2)),
			program.Within("silent", c.silent, 0, 100),
			program.Within("daring", c.daring, 0, max(0, 100-c.silent)),
			program.Within("duration", c.duration, max(0, c.timeout+c.heartbeat), 24*time.Hour),
		)
	})
	return c, err
}

// keepSessions runs the sessions; its error is the verdict.
func keepSessions(ctx context.Context, cfg config, out io.Writer) error {
	page, err := debugserver.Serve(cfg.debugAddr)
	if err != nil {
		return err
	}
	defer page.Stop()
	page.Announce(out)
	r, err := purgatory.New[sessionID]("session", append(page.Options(), purgatory.WithTimeoutsExpected(), purgatory.WithLogger(program.ErrorLog()))...)
	if err != nil {
		return err
	}
	page.Add(r)
	fmt.Fprintf(out, `%d sessions, timeout %v, a heartbeat each %v; %d %% fall silent, %d %% speak just at their deadline; %v
A healthy run: every silent session is found within milliseconds of its deadline, and the others stay.
On a busy machine some of them speak too late, and are found. The verdict is the last line.

`, cfg.sessions, cfg.timeout, cfg.heartbeat, cfg.silent, cfg.daring, cfg.duration)
	console, c := program.NewConsole(out), newCrowd(cfg, r)
	if err := c.openAll(); err != nil {
		return errors.Join(err, r.Close())
	}
	console.Printf("%d sessions are open", r.NumDelayed())
	c.live(ctx, console)
	for _, s := range c.all {
		c.leave(s)
	}
	stopping, cancel := context.WithTimeout(context.Background(), settleTime)
	defer cancel()
	err = r.Shutdown(stopping)
	c.report(out)
	broken := c.verify()
	if len(broken) == 0 {
		fmt.Fprintf(out, "\neach session ended exactly once: %d fell silent and were found, none that spoke in time was lost\n", c.silent)
	}
	return errors.Join(err, program.Verdict(broken))
}

// notes are what the load knows of a session. Times are since the start of the run.
type notes struct {
	ends, finds atomic.Int32 // calls of OnComplete and OnExpiration
	foundAt     atomic.Int64 // when OnExpiration was called first, nanoseconds
	// These are of the goroutine that has the session speak, until the run is over.
	lastWords time.Duration // it does not speak after that; talkative: it does so until the end
	spoke     time.Duration // just before its last heartbeat that was in time: it must not be found until spoke + timeout
	refused   time.Duration // after a heartbeat was refused, if one was: it has been found, or is being found
}

const talkative = time.Duration(math.MaxInt64)

// crowd is all sessions of a run.
type crowd struct {
	sessions
	cfg         config
	start       time.Time
	all         []*session // those that fall silent first
	silent      int
	interrupted bool

	spoken, found atomic.Int64 // heartbeats in time; silent sessions
}

func newCrowd(cfg config, r *purgatory.Purgatory[sessionID]) *crowd {
	c := &crowd{cfg: cfg, start: time.Now(), silent: cfg.sessions * cfg.silent / 100}
	c.sessions = sessions{r, cfg.timeout, func(s *session) { s.ends.Add(1) }, func(s *session) {
		if s.finds.Add(1) == 1 {
			s.foundAt.Store(int64(c.now()))
			if s.lastWords != talkative {
				c.found.Add(1)
			}
		}
	}}
	return c
}

func (c *crowd) now() time.Duration { return time.Since(c.start) }

func (c *crowd) openAll() error {
	for i := range c.cfg.sessions {
		s := &session{id: sessionID(i), notes: notes{lastWords: talkative, spoke: c.now()}}
		if i < c.silent {
			s.lastWords = time.Duration(rand.Int64N(int64(c.cfg.duration - c.cfg.timeout)))
		}
		if err := c.open(s); err != nil {
			return err
		}
		c.all = append(c.all, s)
	}
	return nil
}

// settleTime bounds the wait for the last silent sessions to be found, beyond their timeout.
const settleTime = 30 * time.Second

// live has the sessions speak for the run's duration and, unless ctx ends, until the last silent one has been found.
func (c *crowd) live(ctx context.Context, console *program.Console) {
	speaking, hush := context.WithCancel(ctx)
	var running sync.WaitGroup
	c.speak(speaking, running.Go)
	for n := 1; c.now() < c.cfg.duration || int(c.found.Load()) < c.silent && c.now() < c.cfg.duration+settleTime; n++ {
		time.Sleep(20 * time.Millisecond)
		if c.interrupted = ctx.Err() != nil; c.interrupted {
			console.Printf("interrupted: those who are silent by now may not have been found yet")
			break
		}
		if n%50 == 0 {
			console.Printf("heartbeats %9d   sessions %8d   silent and found %7d", c.spoken.Load(), c.registry.NumDelayed(), c.found.Load())
		}
	}
	hush()
	running.Wait()
}

// speak starts goroutines that have the sessions speak until ctx ends: some at their deadlines, the others in an order that has
// nothing to do with where they lie in memory, as heartbeats come from a network.
func (c *crowd) speak(ctx context.Context, start func(func())) {
	daring := c.silent + c.cfg.sessions*c.cfg.daring/100
	start(func() { c.dare(ctx, slices.Clone(c.all[c.silent:daring])) })
	others := slices.Concat(c.all[:c.silent], c.all[daring:])
	rand.Shuffle(len(others), func(i, j int) { others[i], others[j] = others[j], others[i] })
	for share := range slices.Chunk(others, len(others)/runtime.GOMAXPROCS(0)+1) {
		start(func() { c.beat(ctx, share) })
	}
}

// beat has each of some sessions speak once per interval. Every few milliseconds it looks how many should have spoken by then.
func (c *crowd) beat(ctx context.Context, some []*session) {
	wake := time.NewTicker(5 * time.Millisecond)
	defer wake.Stop()
	for from, done := c.now(), 0; ctx.Err() == nil; <-wake.C {
		due := int(float64(c.now()-from) / float64(c.cfg.heartbeat) * float64(len(some)))
		for ; done < due && ctx.Err() == nil; done++ {
			if s := some[done%len(some)]; c.now() <= s.lastWords && s.refused == 0 {
				c.beatOnce(s)
			}
		}
	}
}

func (c *crowd) beatOnce(s *session) (inTime bool) {
	before := c.now()
	if c.heartbeat(s) {
		s.spoke = before
		c.spoken.Add(1)
		return true
	}
	s.refused = c.now()
	return false
}

// dare has sessions speak just when their timeout passes, on both sides of the deadline, by as much as a sleep is late: what
// Extend answers must be what happens. They come in the order of their deadlines.
func (c *crowd) dare(ctx context.Context, queue []*session) {
	for len(queue) > 0 {
		s := queue[0]
		queue = queue[1:]
		select {
		case <-ctx.Done():
			return
		case <-time.After(s.spoke + c.timeout - time.Duration(rand.Int64N(2e6)) - c.now()):
		}
		if c.beatOnce(s) {
			queue = append(queue, s)
		}
	}
}

// report prints what the run has measured, after it.
func (c *crowd) report(out io.Writer) {
	var late []time.Duration
	for _, s := range c.all[:c.silent] {
		if s.finds.Load() > 0 {
			late = append(late, time.Duration(s.foundAt.Load())-s.spoke-c.timeout)
		}
	}
	fmt.Fprintf(out, "\nsilent sessions %d, found %d; past the deadline by %s\n", c.silent, len(late), program.Spread(late))
}

// verify checks every session after everything has stopped, and returns what is broken: the first of each kind.
func (c *crowd) verify() (broken []string) {
	seen := make(map[string]bool)
	check := func(wrong bool, format string, args ...any) {
		if wrong && !seen[format] {
			seen[format] = true
			broken = append(broken, fmt.Sprintf(format, args...))
		}
	}
	check(c.spoken.Load() == 0, "no session spoke in time: nothing happened that could show anything")
	for _, s := range c.all {
		outcome, expired, ends, finds := s.Outcome(), s.Outcome() == operation.Expired, s.ends.Load(), s.finds.Load()
		check(ends != 1, "session %d ended %d times", s.id, ends)
		check(finds > 1 || (finds == 1) != expired, "session %d was found %d times, and has ended as %v", s.id, finds, outcome)
		check(s.lastWords != talkative && !expired && !c.interrupted, "session %d has fallen silent at %v and was not found", s.id, s.lastWords)
		check(s.refused > 0 && s.refused < s.spoke+c.timeout, "session %d was refused a heartbeat that was in time", s.id)
		check(s.refused > 0 && !expired, "session %d was refused a heartbeat and was not found", s.id)
		early := s.spoke + c.timeout - time.Duration(s.foundAt.Load())
		check(finds > 0 && early > 0, "session %d spoke in time and was found, %v before its timeout", s.id, early)
	}
	n := c.registry.Stats()
	check(n.Satisfied+n.Expired != int64(len(c.all)) || n.Pending != 0, "there are %d sessions, the registry counts %d satisfied, %d expired, %d pending",
		len(c.all), n.Satisfied, n.Expired, n.Pending)
	return broken
}
