package main

import (
	"bytes"
	"context"
	"encoding/gob"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/examples/internal/httpload/httploadtest"
)

func silent(string, ...any) {}

// stalledBroker is broker 0 of a cluster whose last follower never fetches and is never dropped: whatever is produced waits.
func stalledBroker(t *testing.T) *broker {
	t.Helper()
	c, err := startCluster(parse(t, "-lag-time", "1h", "-slow-from", "0", "-slow-to", "1h"), newLedger(), silent, nil)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.stop(context.Background())) })
	return c.brokers[0]
}

// client sends produces and receives answers.
type client struct {
	net.Conn
	t       *testing.T
	encoder *gob.Encoder
	decoder *gob.Decoder
}

func connect(t *testing.T, b *broker) *client {
	t.Helper()
	conn, err := net.Dial("tcp", b.listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	return &client{conn, t, gob.NewEncoder(conn), gob.NewDecoder(conn)}
}

func (c *client) produce(id int64, to partition, timeout time.Duration) {
	c.t.Helper()
	require.NoError(c.t, c.encoder.Encode(produceRequest{id, timeout, []newRecord{{to, "a"}}}))
}

func (c *client) receive() (r produceResponse) {
	c.t.Helper()
	require.NoError(c.t, c.decoder.Decode(&r))
	return r
}

// Produces on one connection do not wait for each other: the second is answered while the first one waits.
func TestAnswersComeOutOfOrder(t *testing.T) {
	b := stalledBroker(t)
	c := connect(t, b)
	c.produce(1, orders0, time.Hour)
	c.produce(2, 1, time.Hour) // led by broker 1
	assert.Equal(t, produceResponse{ID: 2, Code: notLeader}, c.receive())
	assert.Equal(t, 1, b.produces.NumDelayed())
}

// A client that goes away leaves its produce behind: it is replicated or timed out all the same, and disturbs nobody.
// That the broker can stop at all shows that the connection has ended.
func TestProducesOutliveTheirClient(t *testing.T) {
	b := stalledBroker(t)
	gone := connect(t, b)
	gone.produce(1, orders0, time.Hour)
	gone.produce(2, orders0, time.Nanosecond)
	gone.receive() // so the broker has read both
	gone.Close()

	stays := connect(t, b)
	stays.produce(3, orders0, time.Nanosecond)
	assert.Equal(t, produceResponse{ID: 3, Code: requestTimedOut}, stays.receive())
}

func TestBrokerHangsUpOnWhatItDoesNotKnow(t *testing.T) {
	b := stalledBroker(t)
	for name, send := range map[string]func(c *client) error{
		"an unknown partition": func(c *client) error { return c.encoder.Encode(produceRequest{Records: []newRecord{{99, "a"}}}) },
		"no produce at all": func(c *client) error {
			_, err := c.Write(bytes.Repeat([]byte("GET / HTTP/1.1\r\n"), 64))
			return err
		},
	} {
		c := connect(t, b)
		require.NoError(t, send(c), name)
		rest, err := io.ReadAll(c)
		assert.Empty(t, rest, name)
		if err != nil {
			assert.ErrorContains(t, err, "reset", name)
		}
	}
}

// A broker that stops answers every produce that it has read, although more of them lie in the socket: also those
// that the client has yet to receive when the broker hangs up.
func TestAStopAnswersEveryProduce(t *testing.T) {
	rounds := 6
	if testing.Short() {
		rounds = 2
	}
	for range rounds {
		c, err := startCluster(parse(t, "-lag-time", "1h", "-slow-from", "0", "-slow-to", "1h"), newLedger(), silent, nil)
		require.NoError(t, err)
		b := c.brokers[0]
		client := connect(t, b)
		var sending sync.WaitGroup
		sending.Go(func() { // until the broker does not read any more
			for id := int64(0); client.encoder.Encode(produceRequest{id, time.Hour, []newRecord{{orders0, "a"}}}) == nil; id++ {
			}
		})
		httploadtest.Until(t, func() bool { return b.produces.NumDelayed() == maxInFlight })
		stopped := make(chan error, 1)
		go func() { stopped <- c.stop(t.Context()) }()
		answered := int64(0)
		for {
			var r produceResponse
			if err = client.decoder.Decode(&r); err != nil {
				break
			}
			require.Equal(t, shuttingDown, r.Code)
			answered++
		}
		require.ErrorIs(t, err, io.EOF)
		require.GreaterOrEqual(t, answered, int64(maxInFlight))
		client.Close()
		sending.Wait()
		require.NoError(t, <-stopped)
	}
}

// A client that does not take its answers holds a broker up until the time of the stop is over.
func TestAStopEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := newBroker(0, newTrio(t).replicas[:1], time.Hour)
		require.NoError(t, err)
		client, server := net.Pipe()
		defer client.Close()
		b.running.Go(func() { b.serve(server) })
		require.NoError(t, gob.NewEncoder(client).Encode(produceRequest{1, time.Hour, []newRecord{{orders0, "a"}}}))
		synctest.Wait()
		assert.Equal(t, 1, b.produces.NumDelayed())
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		_ = b.stop(ctx)
		assert.Equal(t, time.Minute, time.Since(began))
	})
}
