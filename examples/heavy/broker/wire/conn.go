package wire

import (
	"bufio"
	"context"
	"errors"
	"net"

	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/semaphore"
)

var errInFlight = errors.New("wire: too many unanswered requests")

// Conn is one client's connection. Its answers leave in the order of its
// requests, whatever the order in which they were found.
//
// It has a memory of its own, for the request that arrives and those that are not
// answered: a client that sends more than that is not read from until an answer has
// left, and one that announces what it does not send takes nothing from another.
type Conn struct {
	ID     uint64
	tcp    net.Conn
	ctx    context.Context
	cancel context.CancelFunc
	memory *semaphore.Weighted
	slots  chan slot
}

// slot is the place of one answer in the order of a connection's answers.
type slot struct {
	correlation int32
	size        int // of the request
	resp        chan kmsg.Response
}

// Late is a response that is made when its turn has come: a client that asks for
// much and reads nothing has one such answer in memory, not all of them.
type Late struct {
	kmsg.Response
	Make func() kmsg.Response
}

// Close ends the connection, whatever it is doing.
func (c *Conn) Close() {
	c.cancel()
	_ = c.tcp.Close()
}

// Open says whether an answer may still be read. It is false before Gone is called.
func (c *Conn) Open() bool { return c.ctx.Err() == nil }

func (s *Server) read(c *Conn) {
	r := bufio.NewReader(c.tcp)
	for s.request(c, r) == nil {
	}
	close(c.slots)
	s.mu.Lock()
	draining := s.mu.draining
	s.mu.Unlock()
	if !draining {
		c.Close()
	}
	s.handler.Gone(c)
}

// request takes one request. It reads while answers are waited for, as long as there
// is memory: only a read notices that the peer has gone, and then its waits are
// cancelled.
func (s *Server) request(c *Conn, r *bufio.Reader) error {
	frame, err := readFrame(r, func(n int) error { return c.memory.Acquire(c.ctx, int64(n)) })
	if err != nil {
		return err
	}
	if !s.gate.Pass(c.ctx) {
		return c.ctx.Err()
	}
	req, err := parseRequest(frame, s.apis)
	if err != nil {
		return err
	}
	place := slot{correlation: req.correlation, size: len(frame), resp: make(chan kmsg.Response, 1)}
	select {
	case c.slots <- place:
	default:
		return errInFlight
	}
	if req.answer != nil {
		place.resp <- req.answer
		return nil
	}
	s.handler.Handle(c, req.body, func(resp kmsg.Response) { place.resp <- resp })
	return nil
}

// write sends answers in the order of the requests. Once the peer has gone it only
// takes them: Gone has each of them come.
func (s *Server) write(c *Conn) {
	var frame []byte
	for place := range c.slots {
		resp := <-place.resp
		if resp != nil && s.gate.Pass(c.ctx) {
			if late, ok := resp.(Late); ok {
				resp = late.Make()
			}
			frame = appendResponse(frame[:0], place.correlation, resp)
			if _, err := c.tcp.Write(frame); err != nil {
				c.Close()
			}
		}
		c.memory.Release(int64(place.size))
		if cap(frame) > 1<<20 {
			frame = nil // one large fetch must not keep its buffer with every idle connection
		}
	}
	c.Close()
	s.mu.Lock()
	delete(s.mu.conns, c)
	s.mu.Unlock()
}
