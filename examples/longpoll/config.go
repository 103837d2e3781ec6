package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/delayedop/purgatory/examples/internal/debugserver"
	"github.com/delayedop/purgatory/examples/internal/program"
)

// config is what the flags say, checked.
type config struct {
	listen          string
	limits          limits
	writeTimeout    time.Duration
	shutdownTimeout time.Duration
	demo            demoConfig
	debugAddr       string
}

// limits bound what clients can make the server hold.
type limits struct {
	topics   int
	messages int // per topic
	message  int // bytes
	waiting  int
	wait     time.Duration
}

// memory is how many bytes of messages there can be at most.
func (l limits) memory() int { return l.topics * l.messages * l.message }

// parseFlags reads the command line. It returns flag.ErrHelp for -h, after the usage has been written to out.
func parseFlags(args []string, out io.Writer) (config, error) {
	var c config
	f := flag.NewFlagSet("longpoll", flag.ContinueOnError)
	f.StringVar(&c.listen, "listen", "127.0.0.1:8080", "`address` to listen on, host:port; port 0 takes a free one")
	f.IntVar(&c.limits.topics, "max-topics", 64, "`number` of topics; a POST to one more is refused")
	f.IntVar(&c.limits.messages, "max-messages", 128, "`number` of messages that a topic keeps; the oldest goes for a new one")
	f.IntVar(&c.limits.message, "max-message-size", 16<<10, "`bytes` of one message at most")
	f.IntVar(&c.limits.waiting, "max-waiting", 100_000, "`number` of GETs that wait at a time; one more is refused")
	f.DurationVar(&c.limits.wait, "max-wait", 5*time.Minute, "`duration` that a GET may wait at most, the limit of ?timeout=")
	f.DurationVar(&c.writeTimeout, "write-timeout", 10*time.Second, "`duration` for a client to take its answer, or to send its message")
	f.DurationVar(&c.shutdownTimeout, "shutdown-timeout", 10*time.Second, "`duration` that a shutdown waits for requests to end")
	f.BoolVar(&c.demo.on, "demo", false, "run publishers and pollers against the server, on a free port of loopback, and end")
	f.DurationVar(&c.demo.duration, "demo-duration", 3*time.Second, "`duration` for which the publishers of the demo publish")
	f.IntVar(&c.demo.topics, "demo-topics", 4, "`number` of topics in the demo, each with a publisher")
	f.IntVar(&c.demo.rate, "demo-rate", 60, "`number` of messages per second to each topic of the demo")
	f.IntVar(&c.demo.pollers, "demo-pollers", 100, "`number` of pollers in the demo")
	debugserver.Flag(f, &c.debugAddr)
	err := program.Parse(f, args, out, c.validate)
	return c, err
}

// validate refuses what cannot work; it reports every bad flag at once.
func (c *config) validate() error {
	var address error
	if _, _, err := net.SplitHostPort(c.listen); err != nil {
		address = fmt.Errorf("-listen %q: must be host:port (%w)", c.listen, err)
	}
	const day = 24 * time.Hour
	return errors.Join(
		address,
		program.Within("max-topics", c.limits.topics, 1, 1_000_000),
		program.Within("max-messages", c.limits.messages, 1, 1_000_000),
		program.Within("max-message-size", c.limits.message, 1, 64<<20),
		program.Within("max-waiting", c.limits.waiting, 1, 10_000_000),
		program.Within("max-wait", c.limits.wait, 0, day),
		program.Within("write-timeout", c.writeTimeout, time.Millisecond, time.Hour),
		program.Within("shutdown-timeout", c.shutdownTimeout, time.Millisecond, time.Hour),
		c.validateDemo(),
	)
}

func (c *config) validateDemo() error {
	if !c.demo.on {
		return nil
	}
	return errors.Join(
		program.Within("demo-duration", c.demo.duration, 10*time.Millisecond, time.Hour),
		program.Within("demo-topics", c.demo.topics, 1, min(1000, max(1, c.limits.topics))),
		program.Within("demo-rate", c.demo.rate, 1, 10_000),
		program.Within("demo-pollers", c.demo.pollers, 1, max(1, min(10_000, c.limits.waiting-1))), // one more waits for a moment
	)
}
