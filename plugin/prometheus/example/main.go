// Example is a server whose purgatory Prometheus scrapes.
//
//	go run ./example -listen 127.0.0.1:9100
//	curl http://127.0.0.1:9100/metrics
//
// It makes its own load: each of ten topics has news ten times a second or more, and five
// readers that wait for the next. A tenth of the requests ask for what a topic does not have
// yet when they have to be answered, and expire, as is expected of polls. So the metrics are those of a healthy purgatory.
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
	"sync/atomic"
	"syscall"
	"time"

	client "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/delayedop/purgatory/plugin/prometheus"
	"github.com/delayedop/purgatory/purgatory"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:9100", "`address` of the scrape endpoint")
	native := flag.Bool("native", false, "native histograms beside the classic ones")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *listen, prometheus.Options{NativeHistograms: *native}, func(url string) { fmt.Println("metrics:", url) }); err != nil {
		fmt.Fprintln(os.Stderr, "example:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends; it calls ready when it can be scraped.
func run(ctx context.Context, listen string, opts prometheus.Options, ready func(url string)) error {
	polls, err := purgatory.New[int]("poll", purgatory.WithDiagnostics(), purgatory.WithTimeoutsExpected())
	if err != nil {
		return err
	}
	defer polls.Close()
	collector, err := prometheus.NewWithOptions(opts, polls)
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
	for n := range topics {
		t := &topic{number: n}
		load.Go(func() { t.publish(working, polls) })
		for range readers {
			load.Go(func() { t.read(working, polls) })
		}
	}
	ready("http://" + listener.Addr().String() + "/metrics")
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return err
	}
}

const (
	topics  = 10
	readers = 5 // of each
	far     = 1 << 30
)

// topic is a list of news, of which only the length matters here.
type topic struct {
	number int
	length atomic.Int64
}

// publish has news now and then: it changes the topic, and then says so.
func (t *topic) publish(ctx context.Context, polls *purgatory.Purgatory[int]) {
	for ctx.Err() == nil {
		pause(ctx, time.Duration(1+rand.IntN(100))*time.Millisecond)
		t.length.Add(1)
		polls.Signal(t.number)
	}
}

// read waits for the topic to get longer than it is, again and again.
func (t *topic) read(ctx context.Context, polls *purgatory.Purgatory[int]) {
	for ctx.Err() == nil {
		next, timeout := t.length.Load()+1, 30*time.Second
		if rand.IntN(10) == 0 {
			next, timeout = next+far, 200*time.Millisecond
		}
		err := polls.Await(ctx, timeout, func() bool { return t.length.Load() >= next }, t.number)
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
