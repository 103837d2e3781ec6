package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	"github.com/delayedop/purgatory/examples/heavy/internal/children"
	replicasv1 "github.com/delayedop/purgatory/examples/heavy/replicas/replicas/v1"
)

const (
	holeKey = "hole"
	// holeAudit is the audit's interval of the replica that showHole starts.
	holeAudit = 2 * time.Second
)

// showHole kills a writer with SIGKILL between its commit and its hint, and shows that the
// audit answers the waits nevertheless. Only core NATS has this hole: a put to a bucket is
// its hint, and a notification of PostgreSQL is part of the transaction. So the hints of
// the replica that it starts come by core NATS. n clients wait there for a key that the
// writer puts.
func showHole(ctx context.Context, out io.Writer, natsAddr string, n int) error {
	addr, err := children.FreeAddr()
	if err != nil {
		return err
	}
	replica, err := startProcess(out, "replica", "-addr", addr, "-engine", engineSubjects, "-url", natsURL(natsAddr), "-audit", holeAudit.String())
	if err != nil {
		return err
	}
	defer replica.stop()
	if err := awaitAddr(ctx, addr, replica.ended); err != nil {
		return err
	}
	within, cancel := context.WithTimeoutCause(ctx, time.Minute, errors.New("a wait whose writer died before its hint was lost"))
	var waits sync.WaitGroup
	defer waits.Wait()
	defer cancel()
	all, transport := clients([]string{"http://" + addr})
	defer transport.CloseIdleConnections()
	var answered atomic.Int64
	for range n {
		waits.Go(func() {
			for within.Err() == nil { // a replica that is busy may say that the engine does not answer
				answer, err := all[0].Watch(within, connect.NewRequest(&replicasv1.WatchRequest{Key: holeKey}))
				if err == nil && answer.Msg.Changed {
					answered.Add(1)
					return
				}
			}
		})
	}
	if err := until(within, func() bool { // the re-checks that follow the subscription are over; on a busy machine some coalesce
		stats := statsOf(within, addr, patience)
		return stats["pending"] == int64(n) && (stats["rechecks"]-stats["audits"] >= 6 || stats["audits"] >= 4)
	}); err != nil {
		return err
	}
	reader, line := io.Pipe()
	writer, err := newProcess(line, "put", "-engine", engineSubjects, "-url", natsURL(natsAddr), "-halt")
	if err != nil {
		return err
	}
	writer.in = strings.NewReader(holeKey + "\n")
	if err := writer.start(); err != nil {
		return err
	}
	go func() { writer.await(); line.Close() }() // or the next line would never end
	_, err = bufio.NewReader(reader).ReadString('\n')
	writer.kill() // what it says, it says after the commit
	if err != nil {
		return fmt.Errorf("the writer has written nothing: %w", err)
	}
	died := time.Now()
	if err := until(within, func() bool { return answered.Load() == int64(n) }); err != nil {
		return err
	}
	took, stats := time.Since(died), statsOf(within, addr, patience)
	fmt.Fprintf(out, "a writer was killed between its commit and its hint (core NATS): %d waits answered %v later; %d hints, %d audits, one each %v\n",
		n, took.Round(time.Millisecond), stats["hints"], stats["audits"], holeAudit)
	if stats["hints"] > 0 {
		return errors.New("the writer was killed too late: there was a hint")
	}
	return nil
}

// until waits until ok says so.
func until(ctx context.Context, ok func() bool) error {
	for !ok() {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(10 * time.Millisecond):
		}
	}
	return nil
}

// statsOf asks the replica at addr for its numbers; nil if it does not answer within limit.
func statsOf(ctx context.Context, addr string, limit time.Duration) (numbers map[string]int64) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/stats", nil)
	if err != nil {
		return nil
	}
	answer, err := statsClient.Do(request)
	if err != nil {
		return nil
	}
	defer answer.Body.Close()
	_ = json.NewDecoder(answer.Body).Decode(&numbers)
	return numbers
}

// statsClient keeps no connections.
var statsClient = http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
