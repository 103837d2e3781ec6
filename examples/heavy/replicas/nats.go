package main

import (
	"context"
	"errors"
	"flag"
	"net"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// runNATS is a NATS server, until ctx ends.
func runNATS(ctx context.Context, arguments []string) error {
	flags := flag.NewFlagSet("nats", flag.ContinueOnError)
	addr := flags.String("addr", "127.0.0.1:4222", "address to serve at")
	dir := flags.String("dir", "", "where the state is kept")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	host, text, err := net.SplitHostPort(*addr)
	if err != nil {
		return err
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return err
	}
	s, err := server.NewServer(&server.Options{Host: host, Port: port, JetStream: true, StoreDir: *dir, NoSigs: true, NoLog: true})
	if err != nil {
		return err
	}
	go s.Start()
	if !s.ReadyForConnections(30 * time.Second) {
		return errors.New("the server does not come up")
	}
	<-ctx.Done()
	s.Shutdown()
	s.WaitForShutdown()
	return nil
}
