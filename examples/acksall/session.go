package main

import (
	"bufio"
	"encoding/gob"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// maxInFlight bounds the requests of one connection that are read and not yet answered. A client that sends more is not read
// from, and feels it as TCP's back pressure.
const maxInFlight = 4096

// session is the broker's end of one connection. Requests are read in order, their answers are written as they come.
type session struct {
	conn    net.Conn
	slots   chan struct{} // one taken for each request read, given back when its answer has been written
	answers chan answer   // as long as slots, so that answering never blocks, whatever the client does
}

// answer is a response on its way to the client.
type answer struct {
	response
	first bool // to its request
}

// reply is where the answer to one request goes. It is safe for concurrent use.
type reply struct {
	session  *session
	answered atomic.Bool
}

func newSession(conn net.Conn) *session {
	return &session{
		conn:    conn,
		slots:   make(chan struct{}, maxInFlight),
		answers: make(chan answer, maxInFlight),
	}
}

// serve handles requests until the client hangs up, hangUp is called, or one is refused by handle, which then does not answer
// it. It returns when all others have been answered.
func (s *session) serve(handle func(request, *reply) (ok bool)) {
	var writer sync.WaitGroup
	writer.Go(s.write)
	decoder := gob.NewDecoder(bufio.NewReader(s.conn))
	for {
		s.slots <- struct{}{}
		var r request
		if decoder.Decode(&r) != nil || !handle(r, &reply{session: s}) {
			<-s.slots
			break
		}
	}
	for range maxInFlight { // with every slot taken, nothing is in flight
		s.slots <- struct{}{}
	}
	close(s.answers)
	writer.Wait()
	s.conn.Close()
}

// hangUp ends the reading of requests; those that were read are still answered.
func (s *session) hangUp() {
	_ = s.conn.SetReadDeadline(time.Unix(1, 0)) // it fails only when the connection is closed already
}

func (r *reply) produced(p produceResponse) { r.send(response{Produce: &p}) }
func (r *reply) fetched(f fetchResponse)    { r.send(response{Fetch: &f}) }

// send passes on every answer, also a second one to the same request: that is the defect this program looks for, and the
// producer has to see it.
func (r *reply) send(what response) {
	r.session.answers <- answer{response: what, first: !r.answered.Swap(true)}
}

// write sends the answers. After the connection broke it goes on taking them, so that nobody waits for a client that is gone.
func (s *session) write() {
	out := bufio.NewWriter(s.conn)
	encoder := gob.NewEncoder(out)
	var broken error
	for a := range s.answers {
		if broken == nil {
			broken = encoder.Encode(a.response)
		}
		if broken == nil && len(s.answers) == 0 {
			broken = out.Flush()
		}
		if a.first {
			<-s.slots
		}
	}
}
