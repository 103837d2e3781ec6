package wire

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Client sends requests to one server, one at a time: the way in which brokers
// speak to each other and to their controller. The two ends are of one build,
// so that the caller sets the version instead of negotiating it. Safe for
// concurrent use.
type Client struct {
	id  string
	tcp net.Conn

	mu struct {
		sync.Mutex
		r           *bufio.Reader
		correlation int32
		frame       []byte
	}
}

// Dial connects to a server.
func Dial(ctx context.Context, addr, id string) (*Client, error) {
	tcp, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	c := &Client{id: id, tcp: tcp}
	c.mu.r = bufio.NewReader(tcp)
	return c, nil
}

// Close ends the connection, and a request that waits on it with an error.
func (c *Client) Close() { _ = c.tcp.Close() }

// Do sends req and returns its response. After an error, also ctx's, the
// connection is closed: an answer may still be under way on it. So ctx
// also ends the requests before this one that are not answered yet.
func (c *Client) Do(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	stop := context.AfterFunc(ctx, c.Close)
	defer stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	resp, err := c.doLocked(req)
	if err != nil {
		c.Close()
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return nil, fmt.Errorf("%s to %s: %w", kmsg.NameForKey(req.Key()), c.tcp.RemoteAddr(), err)
	}
	return resp, nil
}

func (c *Client) doLocked(req kmsg.Request) (kmsg.Response, error) {
	c.mu.correlation++
	c.mu.frame = appendRequest(c.mu.frame[:0], c.mu.correlation, c.id, req)
	if _, err := c.tcp.Write(c.mu.frame); err != nil {
		return nil, err
	}
	frame, err := readFrame(c.mu.r, maxResponseFrame, anyMemory)
	if err != nil {
		return nil, err
	}
	resp := req.ResponseKind()
	header := 4
	if resp.IsFlexible() && resp.Key() != keyApiVersions {
		header++ // the tags; brokers of this build send none
	}
	if len(frame) < header || int32(binary.BigEndian.Uint32(frame)) != c.mu.correlation {
		return nil, errFrame
	}
	return resp, resp.ReadFrom(frame[header:])
}
