package main

import (
	"bufio"
	"encoding/gob"
	"errors"
	"net"
	"time"
)

// What goes over TCP: a stream of gob values, requests one way and responses the other. A follower waits for the response
// to its fetch; a producer does not wait, and tells the responses to its produces apart by their ID.

// request has exactly one of its parts set.
type request struct {
	Produce *produceRequest
	Fetch   *fetchRequest
}

// response answers the request of the same kind.
type response struct {
	Produce *produceResponse
	Fetch   *fetchResponse
}

// produceRequest asks, with acks=all, to append one record to each of some partitions that the broker leads.
type produceRequest struct {
	ID      int64 // chosen by the producer, unique among all producers
	Timeout time.Duration
	Records []newRecord
}

type newRecord struct {
	Partition topicPartition
	Value     string
}

// produceResponse answers a produce as a whole; only with code none are its records acknowledged.
type produceResponse struct {
	ID      int64
	Code    code
	Offsets []int64 // where the records are, in the order of the request
}

// fetchRequest asks for what comes after the follower's own log in some partitions, and thereby says how far that log goes.
type fetchRequest struct {
	Follower   int
	MaxWait    time.Duration
	Partitions []fetchPosition
}

type fetchPosition struct {
	Partition topicPartition
	Epoch     int   // the leader epoch that the follower knows of
	Offset    int64 // the end of the follower's log
	LastEpoch int   // the epoch of the last record in it
}

// fetchResponse has one entry for each partition of the request, in its order.
type fetchResponse struct {
	Partitions []fetched
}

// fetched is what a leader has for a follower in one partition.
type fetched struct {
	Code          code
	HighWatermark int64
	Records       []record
	Diverged      *epochEnd // the follower's log goes on where the leader's never did: cut it back to here, and fetch again
}

// code is a request's outcome as its sender sees it.
type code int

const (
	none              code = iota // appended and on every in-sync replica
	requestTimedOut               // appended, but not known to be on every in-sync replica in time
	notLeader                     // the broker does not lead the partition, or stepped down before the record was replicated
	notEnoughReplicas             // fewer replicas in sync than min.insync.replicas asks for
	shuttingDown                  // the broker is closing
	numCodes
)

func (c code) String() string {
	return [...]string{"satisfied", "timed out", "cancelled (not leader)", "not enough replicas", "shutting down"}[c]
}

// errNotLeader is the cause with which a leader that steps down cancels what waits for its partitions.
var errNotLeader = errors.New("not leader")

// codeOf is what the cause of a cancelled request means to its sender.
func codeOf(cause error) code {
	if errors.Is(cause, errNotLeader) {
		return notLeader
	}
	return shuttingDown
}

// link is the client's end of a connection. One goroutine may send while another receives.
type link struct {
	conn    net.Conn
	out     *bufio.Writer
	encoder *gob.Encoder
	decoder *gob.Decoder
}

func dial(address string) (*link, error) {
	conn, err := net.DialTimeout("tcp", address, 5*time.Second)
	if err != nil {
		return nil, err
	}
	out := bufio.NewWriter(conn)
	return &link{conn: conn, out: out, encoder: gob.NewEncoder(out), decoder: gob.NewDecoder(conn)}, nil
}

func (l *link) send(r request) error {
	if err := l.encoder.Encode(r); err != nil {
		return err
	}
	return l.out.Flush()
}

func (l *link) receive() (response, error) {
	var r response
	err := l.decoder.Decode(&r)
	return r, err
}

func (l *link) close() { l.conn.Close() }
