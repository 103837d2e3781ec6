package nats_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"
)

// route carries the connections of one route of a cluster. It can be cut, and stays so until
// it is mended.
type route struct {
	listener net.Listener
	to       *broker
	delay    atomic.Int64 // of what goes over it, in nanoseconds
	mu       sync.Mutex
	conns    []net.Conn
	down     bool
}

var errDown = errors.New("it is down")

// startRoute starts a route to a server, which need not run.
func startRoute(t *testing.T, to *broker) *route {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r := &route{listener: l, to: to}
	var accepting sync.WaitGroup
	accepting.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			r.carry(from)
		}
	})
	t.Cleanup(func() { _ = l.Close(); r.cut(); accepting.Wait() })
	return r
}

func (r *route) carry(from net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	to, err := net.Conn(nil), errDown
	if !r.down {
		to, err = r.to.dialCluster()
	}
	if err != nil {
		_ = from.Close()
		return
	}
	r.conns = append(r.conns, from, to)
	for _, way := range [][2]net.Conn{{from, to}, {to, from}} {
		go func() {
			_, _ = io.Copy(slow{way[0], &r.delay}, way[1])
			_ = way[0].Close()
			_ = way[1].Close()
		}()
	}
}

// dialCluster connects to the address at which the server listens for others.
func (b *broker) dialCluster() (net.Conn, error) {
	s := b.running()
	if s == nil || s.ClusterAddr() == nil {
		return nil, errDown
	}
	return net.Dial("tcp", s.ClusterAddr().String())
}

// slow is a writer that waits before each write.
type slow struct {
	io.Writer
	delay *atomic.Int64
}

func (s slow) Write(b []byte) (int, error) {
	time.Sleep(time.Duration(s.delay.Load()))
	return s.Writer.Write(b)
}

func (r *route) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.down = true
	for _, c := range r.conns {
		_ = c.Close()
	}
	r.conns = nil
}

func (r *route) mend() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.down = false
}

// cluster is servers in this process. Every two of them are connected by a route that can be
// cut, and by nothing else: what one server sends does not reach another by way of a third.
type cluster struct {
	t       *testing.T
	brokers []*broker
	routes  map[[2]int]*route // of a server's dials to another
}

// startCluster starts three servers.
func startCluster(t *testing.T, change ...func(*server.Options)) *cluster {
	t.Helper()
	c := &cluster{t: t, routes: make(map[[2]int]*route)}
	for range 3 {
		c.brokers = append(c.brokers, &broker{t: t})
	}
	for i, b := range c.brokers {
		b.options = &server.Options{
			ServerName: fmt.Sprint("server", i), Host: "127.0.0.1", Port: freePort(t), StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
			SyncInterval: time.Minute,
			// The servers tell each other an address at which nobody listens, so that they find no route beside ours.
			Cluster: server.ClusterOpts{Name: "cluster", Host: "127.0.0.1", Port: server.RANDOM_PORT, Advertise: "127.0.0.1:1", NoAdvertise: true, PoolSize: -1},
		}
		for j, to := range c.brokers {
			if i != j {
				r := startRoute(t, to)
				c.routes[[2]int{i, j}] = r
				b.options.Routes = append(b.options.Routes, &url.URL{Scheme: "nats", Host: r.listener.Addr().String()})
			}
		}
		for _, f := range change {
			f(b.options)
		}
		b.launch()
		t.Cleanup(b.stop)
	}
	for _, b := range c.brokers {
		b.ready()
	}
	c.await()
	return c
}

// await waits until each server is connected to all others but those from which lost cuts it off.
func (c *cluster) await(lost ...[2]int) {
	for i, b := range c.brokers {
		want := len(c.brokers) - 1
		for _, r := range lost {
			if r[0] == i || r[1] == i {
				want--
			}
		}
		eventually(c.t, func() bool { return b.running().NumRoutes() == want })
	}
}

// delay delays what goes to server i and comes from it.
func (c *cluster) delay(d time.Duration, i int) {
	for between, r := range c.routes {
		if between[0] == i || between[1] == i {
			r.delay.Store(int64(d))
		}
	}
}

// cut cuts the routes between pairs of servers. Their clients notice nothing.
func (c *cluster) cut(pairs ...[2]int) {
	for _, p := range pairs {
		c.routes[p].cut()
		c.routes[[2]int{p[1], p[0]}].cut()
	}
	c.await(pairs...)
}

// mend ends what cut has begun.
func (c *cluster) mend() {
	for _, r := range c.routes {
		r.mend()
	}
	c.await()
}

func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		require.True(t, time.Now().Before(deadline), "it has not happened within a minute")
	}
}

// rounds is how many the tests of clusters make: NATS_ROUNDS=5000 for the long form.
func rounds(short int) int {
	if n, err := strconv.Atoi(os.Getenv("NATS_ROUNDS")); err == nil {
		return n
	}
	return short
}
