// Command demo shows the broker at work: producers with acks=all and a consumer
// group, for half a minute, while one of three brokers is taken out and brought
// back. It ends with a table, and with an error if a record was lost that had
// been acknowledged.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/delayedop/purgatory/examples/broker/broker"
	"github.com/delayedop/purgatory/examples/broker/cluster"
	"github.com/delayedop/purgatory/examples/internal/debugserver"
)

const (
	topic     = "demo"
	producers = 3
	consumers = 2
	catchUp   = 15 * time.Second // for the consumers, once the producers have ended
)

// What the process ends with.
const (
	exitOK     = 0
	exitBroken = 1 // a record was lost, or the program could not run
	exitUsage  = 2 // a flag is wrong
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the first signal ends the run with its table, a second one the process
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// config is what the flags say.
type config struct {
	duration  time.Duration
	rate      int
	crash     bool
	debugAddr string
}

// run is the whole program: it returns the exit status. It ends early, with its table, when ctx does.
func run(ctx context.Context, args []string, out, errs io.Writer) int {
	var cfg config
	f := flag.NewFlagSet("demo", flag.ContinueOnError)
	f.SetOutput(errs)
	f.DurationVar(&cfg.duration, "duration", 30*time.Second, "how long to produce")
	f.IntVar(&cfg.rate, "rate", 3000, "records per second")
	f.BoolVar(&cfg.crash, "crash", false, "kill the broker instead of stopping it in order")
	debugserver.Flag(f, &cfg.debugAddr)
	switch err := f.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		return exitUsage // Parse has said why
	}
	if err := demonstrate(ctx, cfg, out); err != nil {
		fmt.Fprintln(errs, err)
		return exitBroken
	}
	return exitOK
}

func demonstrate(ctx context.Context, cfg config, out io.Writer) error {
	page, err := debugserver.Serve(cfg.debugAddr)
	if err != nil {
		return err
	}
	defer page.Stop()
	page.Announce(out)
	c, err := cluster.Start(ctx, cluster.Config{Brokers: 3, Broker: broker.Config{MinInsyncReplicas: 2, Page: page}})
	if err != nil {
		return err
	}
	defer c.Close()
	fmt.Fprintf(out, "three brokers: %v; topic %q, 6 partitions, 3 replicas, 2 in sync for acks=all\n", c.Addrs(), topic)
	if err := createTopic(ctx, c); err != nil {
		return err
	}
	var l ledger
	producing, endProducing := context.WithTimeout(ctx, cfg.duration)
	defer endProducing()
	consuming, endConsuming := context.WithCancel(context.Background()) // an interrupt ends the producing; what is produced is read
	defer endConsuming()
	var produced, consumed sync.WaitGroup
	for range producers {
		produced.Go(func() { produce(producing, c, &l, cfg.rate/producers) })
	}
	for range consumers {
		consumed.Go(func() { consume(consuming, c, &l) })
	}
	watch(producing, c, &l, cfg, out)
	produced.Wait()
	for end := time.Now().Add(catchUp); l.lost() > 0 && time.Now().Before(end); {
		time.Sleep(100 * time.Millisecond)
	}
	endConsuming()
	consumed.Wait()
	return report(c, &l, out)
}

func newClient(c *cluster.Cluster, opts ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append(opts, kgo.SeedBrokers(c.Addrs()...), kgo.MetadataMinAge(100*time.Millisecond))...)
}

func createTopic(ctx context.Context, c *cluster.Cluster) error {
	client, err := newClient(c)
	if err != nil {
		return err
	}
	defer client.Close()
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = topic, 6, 3
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Topics, req.TimeoutMillis = append(req.Topics, rt), 10_000
	_, err = req.RequestWith(ctx, client)
	return err
}

// produce sends records evenly until ctx ends, and returns when the last is
// answered. franz-go produces idempotently, with acks=all, unless told otherwise.
func produce(ctx context.Context, c *cluster.Cluster, l *ledger, rate int) {
	client, err := newClient(c, kgo.DefaultProduceTopic(topic), kgo.ProducerLinger(5*time.Millisecond))
	if err != nil {
		panic(err) // the options above are not valid
	}
	defer client.Close()
	start, sent := time.Now(), 0
	for ctx.Err() == nil {
		for due := int(time.Since(start).Seconds() * float64(rate)); sent < due; sent++ {
			client.Produce(context.Background(), &kgo.Record{Value: l.next()}, func(r *kgo.Record, err error) {
				l.answered(r.Value, err)
			})
		}
		time.Sleep(2 * time.Millisecond)
	}
	_ = client.Flush(context.Background())
}

// consume is one member of the group.
func consume(ctx context.Context, c *cluster.Cluster, l *ledger) {
	client, err := newClient(c, kgo.ConsumeTopics(topic), kgo.ConsumerGroup("demo"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.AutoCommitInterval(time.Second))
	if err != nil {
		panic(err) // the options above are not valid
	}
	defer client.Close()
	for ctx.Err() == nil {
		client.PollFetches(ctx).EachRecord(func(r *kgo.Record) { l.read(r.Value) })
	}
}

// watch prints a line a second, and takes broker 2 out for the middle third.
func watch(ctx context.Context, c *cluster.Cluster, l *ledger, cfg config, out io.Writer) {
	start := time.Now()
	down, up := start.Add(cfg.duration/3), start.Add(cfg.duration*2/3)
	ticks := time.NewTicker(time.Second)
	defer ticks.Stop()
	for last := (totals{}); ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Until(down)):
			down = start.Add(24 * time.Hour)
			if cfg.crash {
				fmt.Fprintln(out, "      broker 2 is killed")
				_ = c.Kill(2)
			} else {
				fmt.Fprintln(out, "      broker 2 is stopped")
				_ = c.Stop(2)
			}
		case <-time.After(time.Until(up)):
			up = start.Add(24 * time.Hour)
			fmt.Fprintln(out, "      broker 2 is started again")
			if err := c.Restart(ctx, 2); err != nil {
				fmt.Fprintln(out, "     ", err)
			}
		case <-ticks.C:
			now, stats := l.totals(), c.Stats()
			fmt.Fprintf(out, "%4.0fs  +%d produced  +%d acknowledged  +%d consumed  waiting: %d produce, %d fetch, %d heartbeat\n",
				time.Since(start).Seconds(), now.produced-last.produced, now.acked-last.acked, now.consumed-last.consumed,
				stats["produce"].Pending, stats["fetch"].Pending, stats["heartbeat"].Pending)
			last = now
		}
	}
}

var errLost = errors.New("records were lost that had been acknowledged")

func report(c *cluster.Cluster, l *ledger, out io.Writer) error {
	t, lost := l.totals(), l.lost()
	p := l.percentiles(50, 90, 99, 99.9, 100)
	fmt.Fprintf(out, `
produced      %8d
acknowledged  %8d
failed        %8d
consumed      %8d
duplicates    %8d   (read again after a change of group members)
lost          %8d   (acknowledged and never consumed)

acks=all      p50 %v   p90 %v   p99 %v   p99.9 %v   max %v

%s`, t.produced, t.acked, t.failed, t.consumed, t.duplicates, lost, p[0], p[1], p[2], p[3], p[4], c.Table())
	if lost > 0 {
		return errLost
	}
	return nil
}
