package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math"

	"github.com/delayedop/purgatory/examples/internal/debugserver"
)

// flags are what the command line says.
type flags struct {
	brokers, port, controllerPort int
	minInsync                     int
	join                          string
	id                            int
	debugAddr                     string
}

// parse reads the command line, and writes to errs what is wrong with it.
func parse(args []string, errs io.Writer) (flags, error) {
	var v flags
	f := flag.NewFlagSet("broker", flag.ContinueOnError)
	f.SetOutput(errs)
	f.IntVar(&v.brokers, "brokers", 3, "how many brokers to run in this process, 1 to 100")
	f.IntVar(&v.port, "port", 9092, "port of the first broker, the others follow; 0: any")
	f.IntVar(&v.controllerPort, "controller-port", 9090, "port of the controller; 0: any")
	f.IntVar(&v.minInsync, "min-insync", 2, "replicas that acks=all needs in sync, or all of a partition that has fewer; the same in every process of a cluster")
	f.StringVar(&v.join, "join", "", "controller of a cluster in another process: run one broker, and let it join")
	f.IntVar(&v.id, "id", 101, "the broker's id with -join")
	debugserver.Flag(f, &v.debugAddr)
	if err := f.Parse(args); err != nil {
		return v, err // Parse has said why
	}
	err := errors.Join(
		within("brokers", v.brokers, 1, 100),
		within("port", v.port, 0, math.MaxUint16-v.brokers),
		within("controller-port", v.controllerPort, 0, math.MaxUint16),
		within("min-insync", v.minInsync, 1, 100),
		within("id", v.id, 0, math.MaxInt32),
	)
	if f.NArg() > 0 {
		err = errors.Join(err, fmt.Errorf("unexpected argument %q: there are only flags (-h lists them)", f.Arg(0)))
	}
	if err != nil {
		fmt.Fprintln(errs, err)
	}
	return v, err
}

func within(name string, value, low, high int) error {
	if value >= low && value <= high {
		return nil
	}
	return fmt.Errorf("-%s %d: allowed is %d to %d", name, value, low, high)
}
