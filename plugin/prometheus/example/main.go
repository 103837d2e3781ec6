// Example is a server whose purgatory Prometheus scrapes.
//
//	go run ./example -listen 127.0.0.1:9100
//	curl http://127.0.0.1:9100/metrics
//
// It makes its own load: requests that wait for one of ten topics, each of which has news
// now and then. A tenth of them wait in vain, and expire.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	client "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/delayedop/purgatory/plugin/prometheus"
	"github.com/delayedop/purgatory/purgatory"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:9100", "`address` of the scrape endpoint")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *listen, func(url string) { fmt.Println("metrics:", url) }); err != nil {
		fmt.Fprintln(os.Stderr, "example:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends; it calls ready when it can be scraped.
func run(ctx context.Context, listen string, ready func(url string)) error {
	polls, err := purgatory.New[int]("poll", purgatory.WithHistograms())
	if err != nil {
		return err
	}
	defer polls.Close()
	collector, err := prometheus.New(polls)
	if err != nil {
		return err
	}
	registry := client.NewRegistry() // one's own: the global one belongs to nobody
	if err := registry.Register(collector); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	defer server.Close()
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()

	working, stop := context.WithCancel(ctx)
	var load sync.WaitGroup
	defer load.Wait()
	defer stop()
	for topic := range 10 {
		load.Go(func() { publish(working, polls, topic) })
		load.Go(func() { poll(working, polls, topic) })
	}
	ready("http://" + listener.Addr().String() + "/metrics")
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return err
	}
}

// publish has news for a topic now and then.
func publish(ctx context.Context, polls *purgatory.DelayedOperationPurgatory[int], topic int) {
	for ctx.Err() == nil {
		polls.Signal(topic)
		pause(ctx, time.Duration(1+rand.IntN(100))*time.Millisecond)
	}
}

// poll waits for news of a topic, again and again.
func poll(ctx context.Context, polls *purgatory.DelayedOperationPurgatory[int], topic int) {
	for ctx.Err() == nil {
		tries, enough := 0, 2 // the first two tries come before the wait
		if rand.IntN(10) == 0 {
			enough = 1 << 30
		}
		err := polls.Await(ctx, 500*time.Millisecond, func() bool { tries++; return tries > enough }, topic)
		if errors.Is(err, purgatory.ErrClosed) {
			return
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
