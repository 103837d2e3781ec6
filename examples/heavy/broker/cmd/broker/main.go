// Command broker runs Kafka-compatible brokers in this process, in memory and on
// loopback, for any Kafka client to try. Lines on standard input stop, kill, freeze
// and restart them. With the argument demo it runs them under load instead, has all
// of that happen to them, and says what became of each record.
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
	"time"

	"github.com/delayedop/purgatory/examples/heavy/broker/broker"
	"github.com/delayedop/purgatory/examples/heavy/broker/cluster"
	"github.com/delayedop/purgatory/examples/internal/debugserver"
)

// What the process ends with.
const (
	exitOK     = 0
	exitBroken = 1 // the program could not run, or the demo failed
	exitUsage  = 2 // a flag is wrong
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the first signal ends the cluster, a second one the process
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run is the whole program, until ctx ends: it returns the exit status.
func run(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int {
	demonstrates := len(args) > 0 && args[0] == "demo"
	if demonstrates {
		args = args[1:]
	}
	f := flag.NewFlagSet("broker", flag.ContinueOnError)
	f.SetOutput(errs)
	var debugAddr string
	debugserver.Flag(f, &debugAddr)
	brokers, port, minInsync, duration, rate := 3, 0, 2, 30*time.Second, 3000
	if demonstrates {
		f.DurationVar(&duration, "duration", duration, "how long to produce")
		f.IntVar(&rate, "rate", rate, "records per second")
	} else {
		f.IntVar(&brokers, "brokers", brokers, "how many brokers, 1 to 100")
		f.IntVar(&port, "port", 9092, "port of the first broker, the others follow; 0: any")
		f.IntVar(&minInsync, "min-insync", minInsync, "replicas that acks=all needs in sync, or all of a partition that has fewer")
	}
	switch err := f.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		return exitUsage // Parse has said why
	case f.NArg() > 0 || brokers < 1 || brokers > 100 || port < 0 || port > 65_000 || minInsync < 1 || rate < 1:
		fmt.Fprintln(errs, "unexpected argument, or a flag out of range: -h says what there is")
		return exitUsage
	}
	page, err := debugserver.Serve(debugAddr)
	if err != nil {
		fmt.Fprintln(errs, err)
		return exitBroken
	}
	defer page.Stop()
	page.Announce(out)
	config := cluster.Config{Brokers: brokers, Port: port, Broker: broker.Config{MinInsyncReplicas: minInsync, Page: page}}
	if !demonstrates {
		config.Broker.Logger = slog.New(slog.NewTextHandler(errs, nil))
	}
	c, err := cluster.Start(config)
	if err == nil {
		defer c.Close()
		if demonstrates {
			err = demo(ctx, c, duration, rate, out)
		} else {
			prompt(ctx, c, in, out)
		}
	}
	if err != nil {
		fmt.Fprintln(errs, err)
		return exitBroken
	}
	return exitOK
}

// prompt says how to try the cluster and obeys lines until ctx ends.
func prompt(ctx context.Context, c *cluster.Cluster, in io.Reader, out io.Writer) {
	fmt.Fprintf(out, `%d brokers are up, in this process and in memory.

  bootstrap servers  %s

Try them with whatever client is at hand:

  kcat -b %[3]s -t hello -P <<< "hello"
  kcat -b %[3]s -t hello -C -o beginning -e
  kcat -b %[3]s -X auto.offset.reset=earliest -G readers hello
  kafka-console-consumer.sh --bootstrap-server %[3]s --topic hello --group readers --from-beginning

Type  stop N, kill N, start N, freeze N, thaw N, or stats, to see what waits.
Ctrl-C ends it all, and forgets everything.
`, len(c.Addrs()), strings.Join(c.Addrs(), ","), c.Addrs()[0])
	go func() { // ends with the input, or with the process
		for lines := bufio.NewScanner(in); lines.Scan(); {
			if words := strings.Fields(lines.Text()); len(words) > 0 {
				fmt.Fprintln(out, obey(c, words[0], words[1:]))
			}
		}
	}()
	<-ctx.Done()
}

// obey carries out one line and returns what to say.
func obey(c *cluster.Cluster, verb string, args []string) any {
	verbs := map[string]func(int) error{"stop": c.Stop, "kill": c.Kill, "start": c.Restart, "freeze": c.Freeze, "thaw": c.Thaw}
	do := verbs[verb]
	switch {
	case verb == "stats":
		return c.Table()
	case do == nil || len(args) != 1:
		return "stop N, kill N, start N, freeze N, thaw N, stats"
	}
	n, _ := strconv.Atoi(args[0]) // there is no broker 0
	if err := do(n); err != nil {
		return err
	}
	return "done"
}
