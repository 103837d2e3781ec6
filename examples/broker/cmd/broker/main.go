// Command broker runs a cluster of Kafka-compatible brokers on loopback, for any
// Kafka client to try. Lines on standard input stop, kill and start brokers.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/delayedop/purgatory/examples/broker/broker"
	"github.com/delayedop/purgatory/examples/broker/cluster"
)

func main() {
	brokers := flag.Int("brokers", 3, "how many brokers to run in this process")
	port := flag.Int("port", 9092, "port of the first broker; the others follow")
	controllerPort := flag.Int("controller-port", 9090, "port of the controller")
	minInsync := flag.Int("min-insync", 2, "replicas that acks=all needs in sync; more than there are brokers makes no sense")
	join := flag.String("join", "", "controller of a cluster in another process: run one broker, and let it join")
	id := flag.Int("id", 101, "the broker's id with -join")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	config := broker.Config{MinInsyncReplicas: min(*minInsync, max(*brokers, 1))}
	var err error
	if *join != "" {
		config.ID, config.Controller, config.MinInsyncReplicas = int32(*id), *join, *minInsync
		config.Addr = fmt.Sprintf("127.0.0.1:%d", *port)
		err = runOne(ctx, config)
	} else {
		err = runAll(ctx, cluster.Config{Brokers: *brokers, Port: *port, ControllerPort: *controllerPort, Broker: config})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// runOne runs a broker of a cluster whose controller is elsewhere.
func runOne(ctx context.Context, config broker.Config) error {
	b, err := broker.Start(ctx, config)
	if err != nil {
		return err
	}
	fmt.Printf("broker %d on %s has joined %s; Ctrl-C leaves\n", b.ID(), b.Addr(), config.Controller)
	<-ctx.Done()
	b.Stop()
	return nil
}

func runAll(ctx context.Context, config cluster.Config) error {
	c, err := cluster.Start(ctx, config)
	if err != nil {
		return err
	}
	defer c.Close()
	bootstrap := strings.Join(c.Addrs(), ",")
	fmt.Printf(`%d brokers are up.

  bootstrap servers  %s
  controller         %s

Try them with whatever client is at hand:

  kcat -b %[4]s -t hello -P <<< "hello"
  kcat -b %[4]s -t hello -C -o beginning -e
  kcat -b %[4]s -G readers hello
  kafka-console-producer.sh --bootstrap-server %[4]s --topic hello
  kafka-console-consumer.sh --bootstrap-server %[4]s --topic hello --group readers

Another broker, in a process of its own:

  go run ./cmd/broker -join %[3]s -id 101 -port %[5]d

Type  stop N, kill N, start N, wipe N (a broker that is down forgets its log),
or    stats, to see what waits. Ctrl-C ends it all.
`, config.Brokers, bootstrap, c.Controller(), c.Addrs()[0], config.Port+config.Brokers+10)
	go commands(ctx, c, os.Stdin)
	<-ctx.Done()
	return nil
}

// commands obeys lines until there are no more.
func commands(ctx context.Context, c *cluster.Cluster, in io.Reader) {
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
			fmt.Print(c.Table())
		default:
			err = fmt.Errorf("no command %q", verb)
		}
		if err != nil {
			fmt.Println(err)
		} else {
			fmt.Println("done")
		}
	}
}
