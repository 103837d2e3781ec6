// Command broker runs a cluster of Kafka-compatible brokers on loopback, for any
// Kafka client to try. Lines on standard input stop, kill and start brokers.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/delayedop/purgatory/examples/broker/broker"
	"github.com/delayedop/purgatory/examples/broker/cluster"
	"github.com/delayedop/purgatory/examples/internal/debugserver"
)

// What the process ends with.
const (
	exitOK     = 0
	exitBroken = 1 // the program could not run
	exitUsage  = 2 // a flag is wrong
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the first signal ends the cluster, a second one the process
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run is the whole program, until ctx ends: it returns the exit status.
func run(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int {
	f, err := parse(args, errs)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		return exitUsage
	}
	page, err := debugserver.Serve(f.debugAddr)
	if err != nil {
		fmt.Fprintln(errs, err)
		return exitBroken
	}
	defer page.Stop()
	page.Announce(out)
	config := broker.Config{
		MinInsyncReplicas: f.minInsync,
		Page:              page,
		Logger:            slog.New(slog.NewTextHandler(errs, nil)),
	}
	if f.join != "" {
		config.ID, config.Controller = int32(f.id), f.join
		config.Addr = fmt.Sprintf("127.0.0.1:%d", f.port)
		err = runOne(ctx, config, out)
	} else {
		err = runAll(ctx, cluster.Config{Brokers: f.brokers, Port: f.port, ControllerPort: f.controllerPort, Broker: config}, in, out)
	}
	if err != nil && ctx.Err() == nil { // an interrupt is no failure, also of a start that it cut short
		fmt.Fprintln(errs, err)
		return exitBroken
	}
	return exitOK
}

// runOne runs a broker of a cluster whose controller is elsewhere.
func runOne(ctx context.Context, config broker.Config, out io.Writer) error {
	b, err := broker.Start(ctx, config)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "broker %d on %s has joined %s; Ctrl-C leaves\n", b.ID(), b.Addr(), config.Controller)
	<-ctx.Done()
	b.Stop()
	return nil
}

func runAll(ctx context.Context, config cluster.Config, in io.Reader, out io.Writer) error {
	c, err := cluster.Start(ctx, config)
	if err != nil {
		return err
	}
	defer c.Close()
	bootstrap := strings.Join(c.Addrs(), ",")
	free := 0 // port for another broker
	if config.Port > 0 {
		free = config.Port + config.Brokers + 10
	}
	fmt.Fprintf(out, `%d brokers are up.

  bootstrap servers  %s
  controller         %s

Try them with whatever client is at hand:

  kcat -b %[4]s -t hello -P <<< "hello"
  kcat -b %[4]s -t hello -C -o beginning -e
  kcat -b %[4]s -X auto.offset.reset=earliest -G readers hello
  kafka-console-producer.sh --bootstrap-server %[4]s --topic hello
  kafka-console-consumer.sh --bootstrap-server %[4]s --topic hello --group readers --from-beginning

Another broker, in a process of its own, from examples/broker:

  go run ./cmd/broker -join %[3]s -id 101 -port %[5]d

Type  stop N, kill N, start N, wipe N (a broker that is down forgets its log),
or    stats, to see what waits. Ctrl-C ends it all.
`, config.Brokers, bootstrap, c.Controller(), c.Addrs()[0], free)
	go commands(ctx, c, in, out) // ends with the input, or with the process
	<-ctx.Done()
	return nil
}

// commands obeys lines until there are no more.
func commands(ctx context.Context, c *cluster.Cluster, in io.Reader, out io.Writer) {
	for lines := bufio.NewScanner(in); lines.Scan(); {
		verb, arg, _ := strings.Cut(strings.TrimSpace(lines.Text()), " ")
		n, _ := strconv.Atoi(arg) // there is no broker 0
		var err error
		switch verb {
		case "":
			continue
		case "stop":
			err = c.Stop(int32(n))
		case "kill":
			err = c.Kill(int32(n))
		case "start":
			err = c.Restart(ctx, int32(n))
		case "wipe":
			err = c.Wipe(int32(n))
		case "stats":
			fmt.Fprint(out, c.Table())
		default:
			err = fmt.Errorf("no command %q", verb)
		}
		if err != nil {
			fmt.Fprintln(out, err)
		} else {
			fmt.Fprintln(out, "done")
		}
	}
}
