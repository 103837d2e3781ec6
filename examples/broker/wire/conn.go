package wire

import (
	"bufio"
	"context"
	"errors"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

var errInFlight = errors.New("wire: too many unanswered requests")

// Conn is one client's connection. Its answers leave in the order of its
// requests, whatever the order in which they were found.
type Conn struct {
	ID     uint64
	tcp    net.Conn
	ctx    context.Context
	cancel context.CancelFunc
	slots  chan slot
}

// slot is the place of one answer in the order of a connection's answers.
type slot struct {
	correlation int32
	size        int // of the request, held until it is answered
	resp        chan kmsg.Response
}

// Held is a response that holds memory until it is sent or nobody wants it; then Free
// is called.
type Held struct {
	kmsg.Response
	Free func()
}

// Close ends the connection, whatever it is doing.
func (c *Conn) Close() {
	c.cancel()
	_ = c.tcp.Close()
}

// Open says whether an answer may still be read. It is false before Gone is called.
func (c *Conn) Open() bool { return c.ctx.Err() == nil }

func (s *Server) read(c *Conn) {
	err := s.requests(c)
	close(c.slots)
	s.mu.Lock()
	draining := s.mu.draining
	s.mu.Unlock()
	if !draining {
		s.limits.Logger.Debug("connection ended", "client", c.tcp.RemoteAddr(), "why", err)
		c.Close()
	}
	s.handler.Gone(c)
}

// requests takes requests until the connection breaks its rules or ends. It
// reads while answers are waited for, however many: only a read notices that
// the peer has gone, and then its waits are cancelled.
func (s *Server) requests(c *Conn) error {
	r := bufio.NewReader(c.tcp)
	for {
		if err := s.request(c, r); err != nil {
			return err
		}
	}
}

func (s *Server) request(c *Conn, r *bufio.Reader) (err error) {
	s.allow(c, time.Now().Add(s.limits.Idle))
	if _, err := r.Peek(1); err != nil {
		return err
	}
	deadline := time.Now().Add(s.limits.Transfer)
	s.allow(c, deadline)
	held := 0
	defer func() {
		if err != nil {
			s.limits.Memory.Free(held)
		}
	}()
	frame, err := readFrame(r, maxRequestFrame, func(n int) error {
		err := s.limits.Memory.Await(c.ctx, time.Until(deadline), n)
		if err == nil {
			held += n
		}
		return err
	})
	if err != nil {
		return err
	}
	req, err := parseRequest(frame, s.apis)
	if err != nil {
		return err
	}
	place := slot{correlation: req.correlation, size: held, resp: make(chan kmsg.Response, 1)}
	select {
	case c.slots <- place:
	default:
		return errInFlight
	}
	if req.unknownApiVersions {
		place.resp <- answerUnknownApiVersions(s.apis)
		return nil
	}
	s.handler.Handle(c, req.body, func(resp kmsg.Response) { place.resp <- resp })
	return nil
}

// allow gives the peer until the deadline for what it has to send. It leaves the
// one alone by which Drain ends the reading.
func (s *Server) allow(c *Conn, deadline time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.mu.draining {
		_ = c.tcp.SetReadDeadline(deadline)
	}
}

// write sends answers in the order of the requests. Once the peer has gone it only
// takes them, and gives back the memory they hold: Gone has each of them come.
func (s *Server) write(c *Conn) {
	var frame []byte
	for place := range c.slots {
		resp := <-place.resp
		held, isHeld := resp.(Held)
		if isHeld {
			resp = held.Response
		}
		if resp != nil && c.Open() {
			frame = appendResponse(frame[:0], place.correlation, resp)
			_ = c.tcp.SetWriteDeadline(time.Now().Add(s.limits.Transfer))
			if _, err := c.tcp.Write(frame); err != nil {
				c.Close()
			}
		}
		if isHeld {
			held.Free()
		}
		s.limits.Memory.Free(place.size)
		if cap(frame) > 1<<20 {
			frame = nil // one large fetch must not keep its buffer with every idle connection
		}
	}
	c.Close()
	s.mu.Lock()
	delete(s.mu.conns, c)
	s.mu.Unlock()
}
