package signalstest

import (
	"math/rand/v2"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
)

// The ports in [firstPort, lastPort) are below those that systems choose themselves.
const firstPort, lastPort = 10_000, 30_000

var ports atomic.Uint32

func init() { ports.Store(rand.Uint32N(lastPort - firstPort)) }

// FreeAddress returns an address, such as "127.0.0.1:20731", at which nobody listens. It is for a server
// that a test stops and starts again: while it is stopped, the system gives its port to no connection, and
// to no listener that asks for any. Each call returns another address.
func FreeAddress(t testing.TB) string {
	t.Helper()
	var l net.Listener
	var err error
	for range lastPort - firstPort {
		port := firstPort + ports.Add(1)%(lastPort-firstPort)
		if l, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port)))); err == nil {
			_ = l.Close()
			return l.Addr().String()
		}
	}
	t.Fatalf("signalstest: no port is free: %v", err)
	return ""
}
