package main

import (
	"bytes"
	"context"
	"encoding/gob"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// stalledBroker is broker 0 of a cluster whose last follower never fetches and is never dropped: whatever is produced waits.
func stalledBroker(t *testing.T) *broker {
	t.Helper()
	cfg := parse(t, "-lag-time", "1h", "-slow-from", "0", "-slow-to", "1h", "-slow-by", "1h")
	c, err := startCluster(cfg, newConsole(io.Discard), nil)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.stop(context.Background())) })
	return c.brokers[0]
}

func connect(t *testing.T, b *broker) *link {
	t.Helper()
	l, err := dial(b.address())
	require.NoError(t, err)
	t.Cleanup(l.close)
	return l
}

func produceTo(tp topicPartition, id int64, timeout time.Duration) request {
	return request{Produce: &produceRequest{ID: id, Timeout: timeout, Records: []newRecord{{Partition: tp, Value: "a"}}}}
}

// Requests on one connection do not wait for each other: the second is answered while the first one waits.
func TestSessionAnswersOutOfOrder(t *testing.T) {
	b := stalledBroker(t)
	l := connect(t, b)
	require.NoError(t, l.send(produceTo(orders0, 1, time.Hour)))
	require.NoError(t, l.send(produceTo(topicPartition{topic, 1}, 2, time.Hour))) // led by broker 1
	r, err := l.receive()
	require.NoError(t, err)
	assert.Equal(t, &produceResponse{ID: 2, Code: notLeader}, r.Produce)
	assert.Equal(t, 1, b.produces.NumDelayed())
}

// A client that goes away leaves its produce behind: it is replicated or timed out all the same, and disturbs nobody.
// That the broker can stop at all shows that the session has ended.
func TestSessionOutlivesItsClient(t *testing.T) {
	b := stalledBroker(t)
	gone := connect(t, b)
	require.NoError(t, gone.send(produceTo(orders0, 1, time.Hour)))
	require.NoError(t, gone.send(produceTo(orders0, 2, time.Nanosecond)))
	_, err := gone.receive() // so the broker has read both
	require.NoError(t, err)
	gone.close()

	stays := connect(t, b)
	require.NoError(t, stays.send(produceTo(orders0, 3, time.Nanosecond)))
	r, err := stays.receive()
	require.NoError(t, err)
	assert.Equal(t, &produceResponse{ID: 3, Code: requestTimedOut}, r.Produce)
}

func TestSessionHangsUpOnWhatItDoesNotKnow(t *testing.T) {
	b := stalledBroker(t)
	for name, send := range map[string]func(net.Conn) error{
		"an empty request":     func(conn net.Conn) error { return gob.NewEncoder(conn).Encode(request{}) },
		"an unknown partition": func(conn net.Conn) error { return gob.NewEncoder(conn).Encode(unknownFetch()) },
		"no request at all": func(conn net.Conn) error {
			_, err := conn.Write(bytes.Repeat([]byte("GET / HTTP/1.1\r\n"), 64))
			return err
		},
	} {
		conn, err := net.Dial("tcp", b.address())
		require.NoError(t, err)
		require.NoError(t, send(conn), name)
		rest, err := io.ReadAll(conn)
		assert.Empty(t, rest, name)
		if err != nil {
			assert.ErrorContains(t, err, "reset", name)
		}
		conn.Close()
	}
}

func unknownFetch() request {
	return request{Fetch: &fetchRequest{Partitions: []fetchPosition{{Partition: topicPartition{"nobody's", 0}}}}}
}

// Two answers to one request must both reach the producer, whose ledger finds the defect.
func TestSessionDeliversSecondAnswer(t *testing.T) {
	client, server := net.Pipe()
	served := make(chan struct{})
	go func() {
		defer close(served)
		newSession(server).serve(func(r request, to *reply) bool {
			to.produced(produceResponse{ID: r.Produce.ID})
			to.produced(produceResponse{ID: r.Produce.ID})
			return true
		})
	}()
	l := &link{conn: client, decoder: gob.NewDecoder(client)}
	require.NoError(t, gob.NewEncoder(client).Encode(produceTo(orders0, 7, time.Second)))
	for range 2 {
		r, err := l.receive()
		require.NoError(t, err)
		assert.Equal(t, int64(7), r.Produce.ID)
	}
	client.Close()
	<-served
}

// Gob leaves out what is zero; that an empty log's end must not become "not diverged" on the way is worth a test.
func TestWireKeepsDivergenceAtZero(t *testing.T) {
	var wire bytes.Buffer
	require.NoError(t, gob.NewEncoder(&wire).Encode(response{Fetch: &fetchResponse{Partitions: []fetched{{Diverged: &epochEnd{}}, {}}}}))
	var got response
	require.NoError(t, gob.NewDecoder(&wire).Decode(&got))
	assert.NotNil(t, got.Fetch.Partitions[0].Diverged)
	assert.Nil(t, got.Fetch.Partitions[1].Diverged)
}
