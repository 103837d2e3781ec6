package main

import (
	"context"
	"encoding/gob"
	"io"
	"net"
	"slices"
	"sync"
	"time"
)

// What goes over TCP: a stream of produces one way and of answers the other, in any order. Followers are in the same process.
type (
	// produceRequest asks, with acks=all, to append one record to each of some partitions that the broker leads.
	produceRequest struct {
		ID      int64 // chosen by the producer, unique among all producers
		Timeout time.Duration
		Records []newRecord
	}
	newRecord struct {
		Partition partition
		Value     string
	}
	// produceResponse answers a produce as a whole; only with code none are its records acknowledged.
	produceResponse struct {
		ID      int64
		Code    code
		Offsets []int64 // where the records are, in the order of the request
	}

	// fetchRequest asks for the records from Offset on, and thereby says that the follower has all before it.
	fetchRequest struct {
		Follower  int
		Partition partition
		Epoch     int // that the follower knows of
		Offset    int64
	}
	fetchResponse struct {
		Code          code
		HighWatermark int64
		Records       []string
	}
)

// code is a request's outcome as its sender sees it.
type code int

const (
	none            code = iota // appended and on every in-sync replica
	requestTimedOut             // appended, but not known to be on every in-sync replica in time
	notLeader                   // the broker does not lead the partition, or stepped down before the record was replicated
	shuttingDown                // the broker is closing
	numCodes
)

func (c code) String() string {
	return [...]string{"satisfied", "timed out", "cancelled (not leader)", "shutting down"}[c]
}

// listen starts to accept connections.
func (b *broker) listen() (err error) {
	if b.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return err
	}
	b.running.Go(func() {
		for {
			conn, err := b.listener.Accept()
			if err != nil {
				return // stopping: the listener is closed
			}
			b.running.Go(func() { b.serve(conn) })
		}
	})
	return nil
}

// maxInFlight bounds the requests of one connection that are read and not yet answered. A client that sends more is not read
// from, and feels it as TCP's back pressure.
const maxInFlight = 4096

// serve handles the produces of one connection until the client hangs up, the broker stops, or a produce names a partition that
// there is not. It reads them in order, writes their answers as they come, and returns when all have been answered.
func (b *broker) serve(conn net.Conn) {
	defer conn.Close()
	defer context.AfterFunc(b.patience, func() { conn.Close() })()
	// When the broker stops it reads no more; what was read is still answered.
	reading, stopReading := context.WithCancel(b.ctx)
	deaf := make(chan struct{})
	context.AfterFunc(reading, func() {
		defer close(deaf)
		_ = conn.SetReadDeadline(time.Unix(1, 0))
	})
	slots := make(chan struct{}, maxInFlight)          // one taken for each produce read, given back when its answer has been written
	answers := make(chan produceResponse, maxInFlight) // as long as slots, so that answering never blocks, whatever the client does
	var writer sync.WaitGroup
	writer.Go(func() {
		encoder := gob.NewEncoder(conn)
		var broken error // then it goes on taking answers, so that nobody waits for a client that is gone
		for a := range answers {
			if broken == nil {
				broken = encoder.Encode(a)
			}
			select {
			case <-slots:
			default: // a second answer to one request: that is the defect this program looks for, and the producer has to see it
			}
		}
	})
	decoder := gob.NewDecoder(conn)
	unknown := func(n newRecord) bool { return n.Partition < 0 || int(n.Partition) >= len(b.replicas) }
	for {
		slots <- struct{}{}
		var r produceRequest
		if decoder.Decode(&r) != nil || slices.ContainsFunc(r.Records, unknown) {
			<-slots
			break
		}
		b.produce(r, func(p produceResponse) { answers <- p })
	}
	for range maxInFlight { // with every slot taken, nothing is in flight
		slots <- struct{}{}
	}
	close(answers)
	writer.Wait()
	stopReading()
	<-deaf
	linger(conn)
}

// lingerTime is how long a client may take to hang up after the broker has.
const lingerTime = time.Second

// linger tells the client that no more answers come, and waits until it hangs up. If the broker closed a connection
// in which requests lie unread, the kernel would reset it, and drop the answers that are still on their way.
func linger(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok && tcp.CloseWrite() == nil {
		_ = tcp.SetReadDeadline(time.Now().Add(lingerTime))
		_, _ = io.Copy(io.Discard, tcp)
	}
}
