package nats_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
)

// ear carries the connections of clients to a server. While it is deaf it drops what subscriptions
// hear, and lets all else through: what the client says, and the answers to its requests and pings.
type ear struct {
	listener net.Listener
	to       *broker
	deaf     atomic.Bool
}

func startEar(t *testing.T, to *broker) *ear {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	e, address := &ear{to: to, listener: l}, fmt.Sprint("127.0.0.1:", to.options.Port)
	var carrying sync.WaitGroup
	carrying.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", address)
			if err != nil {
				_ = client.Close()
				continue
			}
			both := func(f func()) {
				defer client.Close()
				defer server.Close()
				f()
			}
			carrying.Go(func() { both(func() { _, _ = io.Copy(server, client) }) })
			carrying.Go(func() { both(func() { e.hear(client, bufio.NewReader(server)) }) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); carrying.Wait() }) // after those of the connections
	return e
}

// hear passes on what the server says, until the connection breaks.
func (e *ear) hear(client io.Writer, server *bufio.Reader) {
	for {
		line, err := server.ReadString('\n')
		if err != nil {
			return
		}
		words := strings.Fields(line)
		payload := []byte(nil)
		message := len(words) > 3 && (words[0] == "MSG" || words[0] == "HMSG")
		if message {
			n, _ := strconv.Atoi(words[len(words)-1])
			payload = make([]byte, n+2)
			if _, err := io.ReadFull(server, payload); err != nil {
				return
			}
		}
		// An answer to a request comes on _INBOX.client.request.
		if message && e.deaf.Load() && (!strings.HasPrefix(words[1], "_INBOX.") || strings.Count(words[1], ".") != 2) {
			continue
		}
		if _, err := client.Write(append([]byte(line), payload...)); err != nil {
			return
		}
	}
}

// connect is that of the broker, by way of the ear.
func (e *ear) connect(name string, more ...nats.Option) *nats.Conn {
	e.to.t.Helper()
	return e.to.connectTo("nats://"+e.listener.Addr().String(), name, more...)
}
