package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/delayedop/purgatory/examples/heavy/replicas/replicas/v1/replicasv1connect"
	"github.com/delayedop/purgatory/examples/heavy/replicas/service"
)

// runReplica serves until ctx ends, and then hands its waits back.
func runReplica(ctx context.Context, arguments []string) error {
	flags := flag.NewFlagSet("replica", flag.ContinueOnError)
	addr := flags.String("addr", "127.0.0.1:8080", "address to serve at")
	engine := flags.String("engine", engineNATS, "where the state is: nats, subjects (hints on core NATS) or postgres")
	url := flags.String("url", "nats://127.0.0.1:4222", "address of the engine")
	maxWaits := flags.Int("max-waits", 100_000, "maximum number of requests that wait")
	audit := flags.Duration("audit", 30*time.Second, "interval at which everything that waits is re-checked; 0: never")
	certificate := flags.String("tls-cert", "", "file with the certificate; default: no TLS")
	key := flags.String("tls-key", "", "file with the certificate's key")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	silent := time.AfterFunc(5*time.Second, func() {
		fmt.Fprintln(os.Stderr, "replica: the server at -url does not answer; still trying") // the URL may hold a password
	})
	s, err := openStore(ctx, *engine, *url, nil)
	silent.Stop()
	if err != nil {
		return err
	}
	defer s.Close()
	v, err := service.New(s, *maxWaits, *audit, slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})))
	if err != nil {
		return err
	}
	defer v.Drain()
	l, err := net.Listen("tcp", *addr)
	if err != nil {
		return err
	}
	defer l.Close()
	within, stop := context.WithCancel(ctx)
	var hearing sync.WaitGroup
	hearing.Go(func() { _ = v.Run(within) })
	defer hearing.Wait()
	defer stop()
	server := newServer(v)
	served := make(chan error, 1)
	go func() {
		if *certificate != "" {
			served <- server.ServeTLS(l, *certificate, *key)
		} else {
			served <- server.Serve(l)
		}
	}()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	v.Drain()
	closing, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := server.Shutdown(closing); err != nil {
		_ = server.Close()
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// maxRequest is how many bytes of a request are read: enough for the longest value in JSON.
const maxRequest = 1 << 20

// newServer returns a server of gRPC, gRPC-Web and JSON, over HTTP/1.1 and HTTP/2, with and
// without TLS. A connection may have 10,000 requests that wait.
func newServer(v *service.Service) *http.Server {
	mux := http.NewServeMux()
	mux.Handle(replicasv1connect.NewStateHandler(v, connect.WithReadMaxBytes(maxRequest)))
	mux.HandleFunc("GET /stats", func(w http.ResponseWriter, _ *http.Request) {
		waits, hints := v.Stats()
		_ = json.NewEncoder(w).Encode(map[string]int64{
			"pending": waits.Pending, "satisfied": waits.Satisfied, "hints": hints.Hints, "gaps": hints.Gaps,
			"rechecks": hints.Rechecks, "audits": hints.Audits, "reads": hints.BulkReads,
		})
	})
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Handler: mux, Protocols: protocols, ReadHeaderTimeout: 10 * time.Second,
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: 10_000},
	}
}
