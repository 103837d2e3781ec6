// A program of somebody else's that uses the root module and every plugin.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	prom "github.com/prometheus/client_golang/prometheus"

	"github.com/delayedop/purgatory/debug"
	"github.com/delayedop/purgatory/plugin/nats"
	"github.com/delayedop/purgatory/plugin/postgres"
	"github.com/delayedop/purgatory/plugin/prometheus"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/signals"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	p, err := purgatory.New[string]("fetch")
	check(err)
	page, err := debug.New(p)
	check(err)

	// A hint from another process ends a wait.
	var changed atomic.Bool
	hints, err := signals.To(p)
	check(err)
	listening, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		done <- hints.Run(listening, signals.SourceFunc[string](func(ctx context.Context, sink signals.Sink[string]) error {
			sink.Missed(signals.ErrSubscribed)
			changed.Store(true)
			sink.Changed("orders-0", 1)
			<-ctx.Done()
			return ctx.Err()
		}))
	}()
	check(p.Await(ctx, time.Minute, changed.Load, "orders-0"))
	stop()
	<-done

	// The plugins, without their servers.
	token, err := nats.Encode("orders.0")
	check(err)
	key, err := nats.Decode(token)
	check(err)
	errNoServer := errors.New("no server")
	source, err := postgres.Listen(func(context.Context) (*pgx.Conn, error) { return nil, errNoServer }, "hints")
	check(err)
	if err := source.Run(ctx, hints); !errors.Is(err, errNoServer) {
		log.Fatalf("postgres: %v", err)
	}
	collector, err := prometheus.New(p)
	check(err)
	registry := prom.NewRegistry()
	check(registry.Register(collector))
	families, err := registry.Gather()
	check(err)
	if len(families) == 0 {
		log.Fatal("prometheus: no metrics")
	}
	page.Close()
	check(p.Shutdown(ctx))
	fmt.Println("awaited", key)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
