// Faults runs the servers of proof/faults for real, the sick ones and the healthy ones, with the debug page, the log and the metrics that an
// operator has.
//
//	go run ./example/faults -listen 127.0.0.1:9101 2>faults.log
//	curl http://127.0.0.1:9101/debug/purgatories
//	prometheus --config.file=…   # scrapes http://127.0.0.1:9101/metrics, with alerts.yaml as its rule_files
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	client "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/delayedop/purgatory/debug"
	"github.com/delayedop/purgatory/plugin/prometheus"
	"github.com/delayedop/purgatory/proof/faults"
	"github.com/delayedop/purgatory/purgatory"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:9101", "`address` of the page and of the metrics")
	flag.Parse()
	if err := run(*listen); err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
		os.Exit(1)
	}
}

func run(listen string) error {
	page, err := debug.NewWithOptions(debug.Options{Idle: -1})
	if err != nil {
		return err
	}
	defer page.Close()
	collector, err := prometheus.New()
	if err != nil {
		return err
	}
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	var all []*faults.Purgatory
	for _, s := range slices.Concat(faults.Sick, faults.Well) {
		running, err := s.Run(purgatory.WithLogger(logger))
		if err != nil {
			return err
		}
		all = append(all, running.Purgatory)
		if err := show(page, collector, s.Name, running); err != nil {
			return err
		}
	}
	registry := client.NewRegistry()
	if err := registry.Register(collector); err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/debug/purgatories", page)
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	server := &http.Server{Addr: listen, Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()
	select {
	case <-ctx.Done():
		soon, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		for _, p := range all {
			if err := p.Shutdown(soon); err != nil { // something still waited, or a callback blocks: the error names it
				logger.Error("shutdown", "purgatory", p.Name(), "error", err)
			}
		}
		return server.Close()
	case err := <-failed:
		return err
	}
}

func show(page *debug.Page, collector *prometheus.Collector, name string, running *faults.Running) error {
	if err := page.Add(running.Purgatory); err != nil {
		return err
	}
	if err := collector.Add(running.Purgatory); err != nil {
		return err
	}
	if w := running.Watermark; w != nil {
		if err := page.AddWatermark(name, w); err != nil {
			return err
		}
		if err := collector.AddWatermark(name, w); err != nil {
			return err
		}
	}
	if l := running.Line; l != nil {
		if err := page.AddQueue(name, l); err != nil {
			return err
		}
		return collector.AddQueue(name, l)
	}
	return nil
}
