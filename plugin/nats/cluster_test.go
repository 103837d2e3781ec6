package nats_test

import (
	"context"
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
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	natssignals "github.com/delayedop/purgatory/plugin/nats"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/signals"
)

// route carries the connections of one route of a cluster. It can be cut, and stays so until
// it is mended.
type route struct {
	listener net.Listener
	to       string
	delay    time.Duration // of what goes over it
	mu       sync.Mutex
	conns    []net.Conn
	down     bool
}

// startRoute starts a route to an address.
func startRoute(t *testing.T, to string, delay time.Duration) *route {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r := &route{listener: l, to: to, delay: delay}
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
	to, err := net.Dial("tcp", r.to)
	if err != nil || r.down {
		_ = from.Close()
		return
	}
	r.conns = append(r.conns, from, to)
	for _, way := range [][2]net.Conn{{from, to}, {to, from}} {
		go func() {
			_, _ = io.Copy(slow{way[0], r.delay}, way[1])
			_ = way[0].Close()
			_ = way[1].Close()
		}()
	}
}

// slow is a writer that waits before each write.
type slow struct {
	io.Writer
	delay time.Duration
}

func (s slow) Write(b []byte) (int, error) {
	time.Sleep(s.delay)
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

// startCluster starts servers in this process. The routes from each to the servers before it
// go through routes[i][j], with a delay, and are the only ones.
func startCluster(t *testing.T, n int, delay time.Duration, change ...func(*server.Options)) (brokers []*broker, routes map[[2]int]*route) {
	t.Helper()
	routes = make(map[[2]int]*route)
	for i := range n {
		brokers = append(brokers, startBroker(t, func(o *server.Options) {
			o.JetStream = false
			for _, f := range change {
				f(o)
			}
			o.Cluster = server.ClusterOpts{Name: "cluster", Host: "127.0.0.1", Port: server.RANDOM_PORT, NoAdvertise: true, PoolSize: -1}
			for j := range i {
				r := startRoute(t, brokers[j].running().ClusterAddr().String(), delay)
				routes[[2]int{i, j}] = r
				o.Routes = append(o.Routes, &url.URL{Scheme: "nats", Host: r.listener.Addr().String()})
			}
		}))
	}
	for _, b := range brokers {
		eventually(t, func() bool { return b.running().NumRoutes() >= n-1 })
	}
	return brokers, routes
}

// startJetStreamCluster starts three servers that keep replicas of a bucket.
func startJetStreamCluster(t *testing.T) (brokers []*broker) {
	t.Helper()
	var ports []int
	var routes []*url.URL
	for range 3 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
		routes = append(routes, &url.URL{Scheme: "nats", Host: l.Addr().String()})
		require.NoError(t, l.Close())
	}
	for i, port := range ports {
		b := &broker{t: t, options: &server.Options{
			ServerName: fmt.Sprint("server", i), Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(),
			NoSigs: true, NoLog: true, SyncInterval: time.Minute, Routes: routes,
			Cluster: server.ClusterOpts{Name: "cluster", Host: "127.0.0.1", Port: port},
		}}
		s, err := server.NewServer(b.options)
		require.NoError(t, err)
		go s.Start()
		b.server = s
		t.Cleanup(b.stop)
		brokers = append(brokers, b)
	}
	for _, b := range brokers {
		require.True(t, b.server.ReadyForConnections(time.Minute))
	}
	return brokers
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

// A PONG of the source's server does not say that the other servers know of the subscription.
// The hint is published at another one as soon as the source has said Missed; there are no
// audits. What is lost in that moment is seen by the re-checks that follow a gap.
func TestAHintAtAnotherServerRightAfterMissed(t *testing.T) {
	for _, c := range []struct {
		name string
		lag  time.Duration
	}{{"default", 2 * time.Second}, {"without repeats", 0}} {
		t.Run(c.name, func(t *testing.T) {
			brokers, _ := startCluster(t, 2, 30*time.Millisecond)
			nc, writer := brokers[0].connect("source"), brokers[1].connect("writer")
			source, err := natssignals.Subjects(nc, "hints.test")
			require.NoError(t, err)
			missed := make(chan chan struct{}, 100)
			h := startHearing(t, signals.SourceFunc[string](func(ctx context.Context, sink signals.Sink[string]) error {
				time.Sleep(150 * time.Millisecond) // until the other servers know that the last subscription has gone
				return source.Run(ctx, pausing{sink, missed})
			}), signals.WithLag(c.lag))
			lost := 0
			for i := range rounds(10) {
				key, written := fmt.Sprint("key", i), new(atomic.Bool)
				var goOn chan struct{}
				if i == 0 {
					close(receive(t, missed, "the first Missed"))
				}
				asleep, answered := h.await(t.Context(), key, written.Load)
				receive(t, asleep, "the first read")
				before := h.Stats().Rechecks
				brokers[0].cut(nc)
				goOn = receive(t, missed, "Missed")
				close(goOn) // the runner re-checks
				eventually(t, func() bool { return h.Stats().Rechecks > before })
				written.Store(true)
				require.NoError(t, natssignals.Hint(writer, "hints.test", key, signals.Unknown))
				require.NoError(t, writer.Flush())
				patience := 30 * time.Second
				if c.lag == 0 {
					patience = 100 * time.Millisecond
				}
				select {
				case err := <-answered:
					require.NoError(t, err)
				case <-time.After(patience):
					lost++
				}
				for len(missed) > 0 {
					close(<-missed)
				}
			}
			t.Logf("%d of %d lost", lost, rounds(10))
			if c.lag > 0 {
				assert.Zero(t, lost)
			} else {
				assert.Positive(t, lost, "without the re-checks that follow a gap")
			}
		})
	}
}

// pausing says Missed, and then waits until the test lets it go on.
type pausing struct {
	signals.Sink[string]
	missed chan chan struct{}
}

func (p pausing) Missed(cause error) {
	p.Sink.Missed(cause)
	goOn := make(chan struct{})
	p.missed <- goOn
	<-goOn
}

// Only the route between two servers is cut, so that no client's connection breaks, and what
// is published at one is not heard at the other. A source at each hears by the other's
// heartbeats that something was lost.
func TestACutOfARouteIsAGapOnceItIsMended(t *testing.T) {
	brokers, routes := startCluster(t, 2, 0)
	var sources [2]hearing
	for i := range sources {
		source, err := natssignals.Subjects(brokers[i].connect("source"), "hints.test")
		require.NoError(t, err)
		sources[i] = startHearing(t, source)
		sources[i].awaitStanding(t, true)
	}
	writer := brokers[1].connect("writer")
	route := routes[[2]int{1, 0}]
	for round := range rounds(2) {
		// Each source has heard the other's heartbeat.
		time.Sleep(2500 * time.Millisecond)
		var state sync.Map
		var waits []chan error
		for i := range 20 {
			key := fmt.Sprint("key ", round, i)
			asleep, answered := sources[0].await(t.Context(), key, func() bool { _, ok := state.Load(key); return ok })
			receive(t, asleep, "the first read")
			waits = append(waits, answered)
		}
		route.cut()
		eventually(t, func() bool { return brokers[1].running().NumRoutes() == 0 })
		for i := range waits {
			key := fmt.Sprint("key ", round, i)
			state.Store(key, true)
			require.NoError(t, natssignals.Hint(writer, "hints.test", key, signals.Unknown))
		}
		require.NoError(t, writer.Flush())
		time.Sleep(1500 * time.Millisecond) // at least one heartbeat is lost, too
		for _, w := range waits {
			assert.Empty(t, w, "the route is cut")
		}
		route.mend()
		for _, w := range waits {
			require.NoError(t, receive(t, w, "the answer"))
		}
		assert.True(t, sources[0].Stats().Standing)
	}
}

// A bucket with three replicas: the hint often comes before the replica that answers a direct
// get has the entry.
func TestAReplicaThatIsBehindTheHint(t *testing.T) {
	for _, c := range []struct {
		name string
		lag  time.Duration
	}{{"default", 2 * time.Second}, {"without repeats", 0}} {
		t.Run(c.name, func(t *testing.T) {
			brokers := startJetStreamCluster(t)
			var buckets []jetstream.KeyValue
			for i, b := range brokers {
				js, err := jetstream.New(b.connect("client"))
				require.NoError(t, err)
				var kv jetstream.KeyValue
				require.NoError(t, insist(t.Context(), func(ctx context.Context) (err error) {
					if i == 0 {
						kv, err = js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: bucket, Replicas: 3})
					} else {
						kv, err = js.KeyValue(ctx, bucket)
					}
					return err
				}))
				buckets = append(buckets, kv)
			}
			h := startHearing(t, natssignals.KeyValue(brokers[0].connect("source"), bucket), signals.WithLag(c.lag))
			h.awaitStanding(t, true)
			const together = 50
			lost := 0
			for done := 0; done < rounds(500); done += together {
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				var reading, waiting sync.WaitGroup
				results := make([]error, together)
				for i := range together {
					key := fmt.Sprint("key-", done+i)
					reading.Add(1)
					waiting.Go(func() {
						var once sync.Once
						_, results[i] = purgatory.AwaitRead(ctx, h.p, time.Hour, func(ctx context.Context) (bool, bool, error) {
							defer once.Do(reading.Done)
							_, err := buckets[i%len(buckets)].Get(ctx, key)
							if errors.Is(err, jetstream.ErrKeyNotFound) {
								return false, false, nil
							}
							return err == nil, err == nil, err
						}, key)
					})
				}
				reading.Wait()
				for i := range together {
					waiting.Go(func() {
						_, err := buckets[(i+1)%len(buckets)].Put(ctx, fmt.Sprint("key-", done+i), nil)
						assert.NoError(t, err)
					})
				}
				if c.lag == 0 {
					late := time.AfterFunc(500*time.Millisecond, cancel)
					defer late.Stop()
				}
				waiting.Wait()
				cancel()
				for _, err := range results {
					if err != nil {
						lost++
					}
				}
			}
			t.Logf("%d of %d lost; %v", lost, rounds(500), h.Stats())
			if c.lag > 0 {
				assert.Zero(t, lost)
			}
		})
	}
}
