package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/delayedop/purgatory/examples/heavy/broker/cluster"
)

const (
	topic     = "demo"
	producers = 3
	consumers = 2
	catchUp   = 30 * time.Second // for the consumers, once the producers have ended
)

var (
	errNothing = errors.New("nothing was acknowledged: the run shows nothing")
	errLost    = errors.New("records that had been acknowledged are lost")
	errTwice   = errors.New("records of idempotent producers are in the log twice")
	errBehind  = errors.New("the group did not read what is in the log")
)

// demo runs producers with acks=all and a consumer group, while one broker after
// the other is taken out and brought back. The error says that a record was lost
// that had been acknowledged, or is there twice, or that nothing happened at all.
func demo(ctx context.Context, c *cluster.Cluster, duration time.Duration, rate int, out io.Writer) error {
	fmt.Fprintf(out, "three brokers: %v; topic %q, 6 partitions, 3 replicas, 2 in sync for acks=all\n", c.Addrs(), topic)
	if err := createTopic(ctx, c); err != nil {
		return err
	}
	var l ledger
	producing, endProducing := context.WithTimeout(ctx, duration)
	defer endProducing()
	consuming, endConsuming := context.WithCancel(context.Background()) // an interrupt ends the producing; what is produced is read
	defer endConsuming()
	var produced, consumed sync.WaitGroup
	for range producers {
		produced.Go(func() { produce(producing, c, &l, rate/producers+1) })
	}
	for range consumers {
		consumed.Go(func() { consume(consuming, c, l.group, kgo.ConsumerGroup("demo"), kgo.AutoCommitInterval(time.Second)) })
	}
	watch(producing, c, &l, duration, out)
	produced.Wait()
	consumed.Go(func() { consume(consuming, c, l.log) })
	for end := time.Now().Add(catchUp); !l.complete() && time.Now().Before(end); {
		time.Sleep(50 * time.Millisecond)
	}
	endConsuming()
	consumed.Wait()
	fmt.Fprintf(out, "\n%s\n%s", l.table(), c.Table())
	return l.verdict()
}

func newClient(c *cluster.Cluster, opts ...kgo.Opt) *kgo.Client {
	client, err := kgo.NewClient(append(opts, kgo.SeedBrokers(c.Addrs()...), kgo.MetadataMinAge(100*time.Millisecond))...)
	if err != nil {
		panic(err) // the options are not valid
	}
	return client
}

func createTopic(ctx context.Context, c *cluster.Cluster) error {
	client := newClient(c)
	defer client.Close()
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = topic, 6, 3
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Topics, req.TimeoutMillis = append(req.Topics, rt), 10_000
	_, err := req.RequestWith(ctx, client)
	return err
}

// produce sends records evenly until ctx ends, and returns when the last is
// answered. franz-go produces idempotently, with acks=all, unless told otherwise.
func produce(ctx context.Context, c *cluster.Cluster, l *ledger, rate int) {
	client := newClient(c, kgo.DefaultProduceTopic(topic), kgo.ProducerLinger(5*time.Millisecond))
	defer client.Close()
	for start, sent := time.Now(), 0; ctx.Err() == nil; time.Sleep(2 * time.Millisecond) {
		for due := int(time.Since(start).Seconds() * float64(rate)); sent < due; sent++ {
			client.Produce(context.Background(), &kgo.Record{Value: l.next()}, func(r *kgo.Record, err error) {
				l.answered(r.Value, err)
			})
		}
	}
	_ = client.Flush(context.Background())
}

// consume reads from the beginning until ctx ends.
func consume(ctx context.Context, c *cluster.Cluster, note func(value []byte), opts ...kgo.Opt) {
	client := newClient(c, append(opts, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
	defer client.Close()
	for ctx.Err() == nil {
		client.PollFetches(ctx).EachRecord(func(r *kgo.Record) { note(r.Value) })
	}
}

// watch prints a line a second, and has one accident after the other.
func watch(ctx context.Context, c *cluster.Cluster, l *ledger, duration time.Duration, out io.Writer) {
	accidents := []struct {
		what string
		do   func(int) error
		id   int
	}{
		{"stopped in order", c.Stop, 1},
		{"started again", c.Restart, 1},
		{"killed", c.Kill, 2},
		{"started again", c.Restart, 2},
		{"frozen", c.Freeze, 3},
		{"thawed", c.Thaw, 3},
	}
	next := time.NewTicker(max(time.Millisecond, duration/time.Duration(len(accidents)+1)))
	defer next.Stop()
	ticks := time.NewTicker(time.Second)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			for _, a := range accidents { // an interrupt leaves nobody frozen
				if a.what == "thawed" {
					_ = a.do(a.id)
				}
			}
			return
		case <-next.C:
			if len(accidents) > 0 {
				a := accidents[0]
				accidents = accidents[1:]
				fmt.Fprintf(out, "      broker %d is %s\n", a.id, a.what)
				if err := a.do(a.id); err != nil {
					fmt.Fprintln(out, "     ", err)
				}
			}
		case <-ticks.C:
			fmt.Fprintf(out, "%s  waiting: %d produce, %d fetch, %d heartbeat\n", l.line(), c.Pending("produce"), c.Pending("fetch"), c.Pending("heartbeat"))
		}
	}
}
