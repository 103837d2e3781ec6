package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/delayedop/purgatory/examples/internal/debugserver"
)

// config is what the flags say, checked.
type config struct {
	sessions  int
	timeout   time.Duration
	heartbeat time.Duration
	silent    int // percent
	daring    int // percent
	beaters   int
	duration  time.Duration
	seed      uint64
	debugAddr string
}

// parseFlags reads the command line. It returns flag.ErrHelp for -h, after the usage has been written to out.
func parseFlags(args []string, out io.Writer) (config, error) {
	var c config
	f := flag.NewFlagSet("sessions", flag.ContinueOnError)
	f.SetOutput(out)
	f.IntVar(&c.sessions, "sessions", 200_000, "`number` of sessions")
	f.DurationVar(&c.timeout, "timeout", 3*time.Second, "`duration` after its last heartbeat at which a session is found to be silent")
	f.DurationVar(&c.heartbeat, "heartbeat", time.Second, "`duration` between two heartbeats of a session")
	f.IntVar(&c.silent, "silent", 5, "`percent` of the sessions that fall silent")
	f.IntVar(&c.daring, "daring", 1, "`percent` of the sessions that send each heartbeat just when their timeout passes")
	f.IntVar(&c.beaters, "goroutines", runtime.GOMAXPROCS(0), "`number` of goroutines that send the heartbeats")
	f.DurationVar(&c.duration, "duration", 8*time.Second, "`duration` of the run; the last session falls silent one timeout before its end")
	f.Uint64Var(&c.seed, "seed", 1, "`number` that decides who falls silent and when")
	debugserver.Flag(f, &c.debugAddr)
	if err := f.Parse(args); err != nil {
		return config{}, err
	}
	if f.NArg() > 0 {
		return config{}, fmt.Errorf("unexpected argument %q: there are only flags (-h lists them)", f.Arg(0))
	}
	return c, c.validate()
}

// validate refuses what cannot work, naming the flag, its value and what is allowed; it reports every bad flag at once.
func (c *config) validate() error {
	return errors.Join(
		within("sessions", c.sessions, 1, 10_000_000),
		within("timeout", c.timeout, 10*time.Millisecond, time.Hour),
		within("heartbeat", c.heartbeat, time.Millisecond, max(time.Millisecond, c.timeout/2)),
		within("silent", c.silent, 0, 100),
		within("daring", c.daring, 0, max(0, 100-c.silent)),
		within("goroutines", c.beaters, 1, 1000),
		within("duration", c.duration, max(0, c.timeout+c.heartbeat), 24*time.Hour),
	)
}

func within[T int | time.Duration](flag string, value, low, high T) error {
	if value >= low && value <= high {
		return nil
	}
	return fmt.Errorf("-%s %v: allowed is %v to %v", flag, value, low, high)
}
