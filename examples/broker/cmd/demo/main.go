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
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/delayedop/purgatory/examples/broker/broker"
	"github.com/delayedop/purgatory/examples/broker/cluster"
)

const (
	topic     = "demo"
	producers = 3
	consumers = 2
	catchUp   = 15 * time.Second // for the consumers, once the producers have ended
)

func main() {
	duration := flag.Duration("duration", 30*time.Second, "how long to produce")
	rate := flag.Int("rate", 3000, "records per second")
	crash := flag.Bool("crash", false, "kill the broker instead of stopping it in order")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *duration, *rate, *crash); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, duration time.Duration, rate int, crash bool) error {
	c, err := cluster.Start(ctx, cluster.Config{Brokers: 3, Broker: broker.Config{MinInsyncReplicas: 2}})
	if err != nil {
		return err
	}
	defer c.Close()
	fmt.Printf("three brokers: %v; topic %q, 6 partitions, 3 replicas, 2 in sync for acks=all\n", c.Addrs(), topic)
	if err := createTopic(ctx, c); err != nil {
		return err
	}
	var l ledger
	producing, endProducing := context.WithTimeout(ctx, duration)
	defer endProducing()
	consuming, endConsuming := context.WithCancel(ctx)
	defer endConsuming()
	var produced, consumed sync.WaitGroup
	for range producers {
		produced.Go(func() { produce(producing, c, &l, rate/producers) })
	}
	for range consumers {
		consumed.Go(func() { consume(consuming, c, &l) })
	}
	watch(producing, c, &l, duration, crash)
	produced.Wait()
	for end := time.Now().Add(catchUp); l.lost() > 0 && time.Now().Before(end) && ctx.Err() == nil; {
		time.Sleep(100 * time.Millisecond)
	}
	endConsuming()
	consumed.Wait()
	return report(c, &l)
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
func watch(ctx context.Context, c *cluster.Cluster, l *ledger, duration time.Duration, crash bool) {
	start := time.Now()
	down, up := start.Add(duration/3), start.Add(duration*2/3)
	ticks := time.NewTicker(time.Second)
	defer ticks.Stop()
	for last := (totals{}); ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Until(down)):
			down = start.Add(24 * time.Hour)
			if crash {
				fmt.Println("      broker 2 is killed")
				_ = c.Kill(2)
			} else {
				fmt.Println("      broker 2 is stopped")
				_ = c.Stop(2)
			}
		case <-time.After(time.Until(up)):
			up = start.Add(24 * time.Hour)
			fmt.Println("      broker 2 is started again")
			if err := c.Restart(ctx, 2); err != nil {
				fmt.Println("     ", err)
			}
		case <-ticks.C:
			now, stats := l.totals(), c.Stats()
			fmt.Printf("%4.0fs  +%d produced  +%d acknowledged  +%d consumed  waiting: %d produce, %d fetch, %d heartbeat\n",
				time.Since(start).Seconds(), now.produced-last.produced, now.acked-last.acked, now.consumed-last.consumed,
				stats["produce"].Pending, stats["fetch"].Pending, stats["heartbeat"].Pending)
			last = now
		}
	}
}

var errLost = errors.New("records were lost that had been acknowledged")

func report(c *cluster.Cluster, l *ledger) error {
	t, lost := l.totals(), l.lost()
	p := l.percentiles(50, 90, 99, 99.9, 100)
	fmt.Printf(`
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
