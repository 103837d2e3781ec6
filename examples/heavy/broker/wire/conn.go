package wire

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

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
	frame, err := c.frame(r, s.patience)
	if err != nil {
		return err
	}
	if !s.gate.Pass(c.ctx) {
		return c.ctx.Err()
	}
	correlation, req, err := parseRequest(frame, s.apis)
	if err != nil {
		return err
	}
	place := slot{correlation: correlation, size: len(frame), resp: make(chan kmsg.Response, 1)}
	select {
	case c.slots <- place:
	default:
		return errInFlight
	}
	s.handler.Handle(c, req, func(resp kmsg.Response) { place.resp <- resp })
	return nil
}

// frame reads a length and that many bytes, for which memory is allocated as they
// arrive. Between frames a client may be silent. Within one it is closed when the length,
// the next piece or the rest takes it longer than patience.
func (c *Conn) frame(r *bufio.Reader, patience time.Duration) ([]byte, error) {
	if _, err := r.Peek(1); err != nil {
		return nil, err
	}
	overdue := time.AfterFunc(patience, c.Close)
	defer overdue.Stop()
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, err
	}
	size := int(int32(binary.BigEndian.Uint32(length[:])))
	if size < 4 || size > maxFrame {
		return nil, fmt.Errorf("%w: length %d, allowed 4..%d", errFrame, size, maxFrame)
	}
	overdue.Stop() // memory may be late because of the answers, which are not the client's
	if err := c.memory.Acquire(c.ctx, int64(size)); err != nil {
		return nil, err
	}
	var frame bytes.Buffer
	for frame.Len() < size {
		overdue.Reset(patience)
		if _, err := io.CopyN(&frame, r, int64(min(piece, size-frame.Len()))); err != nil {
			return nil, err
		}
	}
	return frame.Bytes(), nil
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
