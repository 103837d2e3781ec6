package main

import (
	"context"
	"fmt"
	"os"

	"github.com/delayedop/purgatory/examples/heavy/internal/children"
	"github.com/delayedop/purgatory/examples/heavy/replicas/store"
)

// Engines: where the state is, and what carries the hints.
const (
	engineNATS     = "nats"     // a JetStream key-value bucket, for both
	engineSubjects = "subjects" // the same bucket; hints on core NATS, which delivers at most once
	enginePostgres = "postgres" // a table; NOTIFY
)

// openStore opens the store of an engine. committed is called between the commit and the
// hint of each put where these are two steps; it may be nil.
func openStore(ctx context.Context, engine, url string, committed func(revision int64)) (store.Store, error) {
	switch engine {
	case engineNATS:
		return store.NATS(ctx, url)
	case engineSubjects:
		return store.Subjects(ctx, url, committed)
	case enginePostgres:
		return store.Postgres(ctx, url)
	}
	return nil, fmt.Errorf("no engine %q", engine)
}

// engineServer is an engine's server, which the demo can kill and start again.
type engineServer interface {
	start() error
	stop()
	kill()
}

// startServer starts the server of an engine with its files in dir. url(addr) is the URL
// of the engine when it is reached at addr.
func startServer(ctx context.Context, engine, dir string) (s engineServer, addr string, url func(addr string) string, err error) {
	switch engine {
	case engineNATS, engineSubjects:
		addr, err := children.FreeAddr()
		if err != nil {
			return nil, "", nil, err
		}
		p, err := startProcess(os.Stdout, "nats", "-addr", addr, "-dir", dir)
		if err != nil {
			return nil, "", nil, err
		}
		if err := awaitAddr(ctx, addr, p.ended); err != nil {
			p.stop()
			return nil, "", nil, err
		}
		return p, addr, natsURL, nil
	case enginePostgres:
		p, err := startPostgres(ctx, dir)
		if err != nil {
			return nil, "", nil, err
		}
		return p, p.addr, func(addr string) string { return "postgres://" + addr + postgresOptions }, nil
	}
	return nil, "", nil, fmt.Errorf("no engine %q", engine)
}

func natsURL(addr string) string { return "nats://" + addr }
