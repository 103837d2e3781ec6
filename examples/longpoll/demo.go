package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// demoConfig is the load of the demo.
type demoConfig struct {
	on       bool
	duration time.Duration
	topics   int
	rate     int // messages per second and topic
	pollers  int
}

// pollTimeout is how long the demo's GETs are ready to wait; they are ended by news, and at last by the shutdown.
const pollTimeout = 30 * time.Second

// settleTime bounds the demo's wait for pollers to catch up once nothing is published any more.
const settleTime = 30 * time.Second

// demo runs publishers and pollers against a server of its own, and knows at the end whether every poller was sent every message
// of its topic once and in order.
type demo struct {
	cfg       demoConfig
	server    *server
	client    *client
	published []atomic.Int64 // by topic
	pollers   []*poller
}

// demonstrate is the whole demo: an error says which promise was broken. It ends early when ctx does.
func demonstrate(ctx context.Context, cfg config, out io.Writer, log *slog.Logger) error {
	cfg.listen = "127.0.0.1:0"
	cfg.limits.wait = max(cfg.limits.wait, pollTimeout)
	s, err := startServer(cfg, log)
	if err != nil {
		return err
	}
	d := &demo{
		cfg:       cfg.demo,
		server:    s,
		client:    newClient(s.url(), cfg.demo.pollers+cfg.demo.topics),
		published: make([]atomic.Int64, cfg.demo.topics),
	}
	defer d.client.close()
	s.debug.Announce(out)
	fmt.Fprintf(out, "serving on %s: %d topics with %d messages/s each, %d pollers, %v\n",
		s.url(), d.cfg.topics, d.cfg.rate, d.cfg.pollers, d.cfg.duration)
	fmt.Fprintln(out, "A healthy run: a message reaches its pollers within milliseconds, on a busy machine later. The verdict is the last line.")
	return d.run(ctx, out)
}

func (d *demo) run(ctx context.Context, out io.Writer) error {
	var polling errgroup.Group
	for i := range d.cfg.pollers {
		p := &poller{client: d.client, topic: topicName(i % d.cfg.topics)}
		d.pollers = append(d.pollers, p)
		polling.Go(p.run)
	}
	broken := d.publishFor(ctx)
	broken = errors.Join(broken, d.caughtUp())
	broken = errors.Join(broken, d.disconnect(out), d.comeLate(out))

	waiting := d.server.waiting.NumDelayed()
	// A transport may have dialled a connection and then found another one free. A graceful shutdown gives one that has never
	// been used 5 s for its first request, so it is closed here.
	d.client.close()
	broken = errors.Join(broken, d.server.shutdown())
	broken = errors.Join(broken, polling.Wait())
	sent, received := 0, 0
	for i, p := range d.pollers {
		received += len(p.latency)
		broken = errors.Join(broken, p.verdict(d.published[i%d.cfg.topics].Load()))
		if p.sentAway {
			sent++
		}
	}
	fmt.Fprintf(out, "shutdown: %d GETs were waiting, %d pollers were answered 503 with Retry-After\n", waiting, sent)
	d.report(out)
	if received == 0 {
		broken = errors.Join(broken, errors.New("no poller was sent a message: nothing happened that could show anything"))
	}
	if broken == nil {
		fmt.Fprintln(out, "every poller was sent every message of its topic that was kept, once and in order")
	}
	return broken
}

func topicName(i int) string { return "topic-" + strconv.Itoa(i) }

// publishFor runs a publisher per topic for the demo's duration, or until ctx ends or one of them fails.
func (d *demo) publishFor(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, d.cfg.duration)
	defer cancel()
	publishing, ctx := errgroup.WithContext(ctx)
	for i := range d.cfg.topics {
		publishing.Go(func() error { return d.publish(ctx, i) })
	}
	return publishing.Wait()
}

// publish posts messages at the demo's rate; each says when it was sent.
func (d *demo) publish(ctx context.Context, i int) error {
	next := time.NewTicker(time.Second / time.Duration(d.cfg.rate))
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-next.C:
		}
		// Not under ctx: whether a message counts as published must not depend on when the time is up.
		r, err := d.client.publish(context.Background(), topicName(i), strconv.FormatInt(int64(sinceStart()), 10))
		if err != nil {
			return err
		}
		if n := d.published[i].Add(1); r.status != http.StatusCreated || r.body.Offset != n-1 {
			return fmt.Errorf("message %d to %s: status %d, offset %d, %s", n-1, topicName(i), r.status, r.body.Offset, r.body.Error)
		}
	}
}

// caughtUp waits until every poller has what was published and waits for more.
func (d *demo) caughtUp() error {
	ctx, cancel := context.WithTimeout(context.Background(), settleTime)
	defer cancel()
	return until(ctx, func() error {
		for i, p := range d.pollers {
			if p.stopped.Load() {
				return nil // its error says why
			}
			if got, want := p.next.Load(), d.published[i%d.cfg.topics].Load(); got < want {
				return fmt.Errorf("poller %d has come to offset %d of %d", i, got, want)
			}
		}
		if n := d.server.waiting.NumDelayed(); n != d.cfg.pollers {
			return fmt.Errorf("%d GETs are waiting, there are %d pollers", n, d.cfg.pollers)
		}
		return nil
	})
}

// until asks again and again until check has no complaint, or returns the last one when ctx ends.
func until(ctx context.Context, check func() error) error {
	for {
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(2 * time.Millisecond):
		}
	}
}
