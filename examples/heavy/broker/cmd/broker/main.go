// Command broker runs three Kafka-compatible brokers in this process, in memory and on
// loopback, for any Kafka client to try. Lines on standard input stop, kill, freeze
// and restart them.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"

	"github.com/delayedop/purgatory/examples/heavy/broker/broker"
	"github.com/delayedop/purgatory/examples/heavy/broker/cluster"
	"github.com/delayedop/purgatory/examples/internal/debugserver"
	"github.com/delayedop/purgatory/examples/internal/program"
)

func main() {
	program.Main(func(ctx context.Context, args []string, out, errs io.Writer) int {
		return program.Status("broker", run(ctx, args, os.Stdin, out, errs), errs)
	})
}

// run is the whole program, until ctx ends.
func run(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) error {
	f := flag.NewFlagSet("broker", flag.ContinueOnError)
	var debugAddr string
	debugserver.Flag(f, &debugAddr)
	port := f.Int("port", 9092, "port of the first broker, the others follow; 0: any")
	if err := program.Parse(f, args, errs, func() error { return program.Within("port", *port, 0, 65_000) }); err != nil {
		return err
	}
	page, err := debugserver.Serve(debugAddr)
	if err != nil {
		return err
	}
	defer page.Stop()
	page.Announce(out)
	c, err := cluster.Start(cluster.Config{
		Brokers: 3, Port: *port, Logger: slog.New(slog.NewTextHandler(errs, nil)),
		Broker: broker.Config{MinInsyncReplicas: 2, Page: page},
	})
	if err != nil {
		return err
	}
	defer c.Close()
	fmt.Fprintf(out, `3 brokers are up, in this process and in memory.

  bootstrap servers  %s

Try them with whatever client is at hand:

  kcat -b %[2]s -t hello -P <<< "hello"
  kcat -b %[2]s -t hello -C -o beginning -e
  kcat -b %[2]s -X auto.offset.reset=earliest -G readers hello
  kafka-console-consumer.sh --bootstrap-server %[2]s --topic hello --group readers --from-beginning

Type  stop N, kill N, start N, freeze N, thaw N.
Ctrl-C ends it all, and forgets everything.
`, strings.Join(c.Addrs(), ","), c.Addrs()[0])
	go func() { // ends with the input, or with the process
		for lines := bufio.NewScanner(in); lines.Scan(); {
			fmt.Fprintln(out, obey(c, strings.Fields(lines.Text())))
		}
	}()
	<-ctx.Done()
	return nil
}

// obey carries out one line and returns what to say.
func obey(c *cluster.Cluster, words []string) any {
	verbs := map[string]func(int) error{"stop": c.Stop, "kill": c.Kill, "start": c.Restart, "freeze": c.Freeze, "thaw": c.Thaw}
	if len(words) != 2 || verbs[words[0]] == nil {
		return "stop N, kill N, start N, freeze N, thaw N"
	}
	n, _ := strconv.Atoi(words[1]) // there is no broker 0
	if err := verbs[words[0]](n); err != nil {
		return err
	}
	return "done"
}
