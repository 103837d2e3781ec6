package nats_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	natssignals "github.com/delayedop/purgatory/plugin/nats"
	"github.com/delayedop/purgatory/signals"
	"github.com/delayedop/purgatory/signals/signalstest"
)

const bucket = "state"

// broker is a NATS server in this process.
type broker struct {
	t       *testing.T
	options *server.Options
	mu      sync.Mutex
	server  *server.Server
}

func startBroker(t *testing.T, change ...func(*server.Options)) *broker {
	t.Helper()
	b := &broker{t: t, options: &server.Options{
		Host: "127.0.0.1", Port: freePort(t), JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
		// A file system that syncs slowly would say more of itself than of us.
		SyncInterval: time.Minute,
	}}
	for _, f := range change {
		f(b.options)
	}
	b.start()
	t.Cleanup(b.stop)
	return b
}

// freePort returns a port that stays the server's while that is stopped.
func freePort(t *testing.T) int {
	t.Helper()
	address, err := net.ResolveTCPAddr("tcp", signalstest.FreeAddress(t))
	require.NoError(t, err)
	return address.Port
}

func (b *broker) start() {
	b.launch()
	b.ready()
}

// ready waits until the server accepts clients.
func (b *broker) ready() {
	require.True(b.t, b.running().ReadyForConnections(time.Minute))
}

// launch starts the server, and does not wait for it.
func (b *broker) launch() {
	s, err := server.NewServer(b.options.Clone())
	require.NoError(b.t, err)
	go s.Start()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.server = s
}

func (b *broker) stop() {
	s := b.running()
	s.Shutdown()
	s.WaitForShutdown()
}

func (b *broker) running() *server.Server {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.server
}

// connect returns a connection that comes back at once, for as long as the test lasts.
func (b *broker) connect(name string, more ...nats.Option) *nats.Conn {
	b.t.Helper()
	return b.connectTo(b.running().ClientURL(), name, more...)
}

func (b *broker) connectTo(url, name string, more ...nats.Option) *nats.Conn {
	b.t.Helper()
	options := append([]nats.Option{
		nats.Name(name), nats.MaxReconnects(-1), nats.ReconnectWait(time.Millisecond), nats.ReconnectJitter(0, 0),
		nats.ReconnectBufSize(64 << 20), nats.Timeout(time.Minute),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}), // they are expected
	}, more...)
	nc, err := nats.Connect(url, options...)
	require.NoError(b.t, err)
	b.t.Cleanup(nc.Close)
	return nc
}

// cut has the server drop a connection, or the client.
func (b *broker) cut(nc *nats.Conn) {
	if id, err := nc.GetClientID(); err == nil && rand.N(2) == 0 {
		_ = b.running().DisconnectClientByID(id)
		return
	}
	_ = nc.ForceReconnect()
}

func key(i int) string { return fmt.Sprintf("key %d > *", i) }

// insist calls f until it succeeds: a writer tries again where the engine is cut off.
func insist(ctx context.Context, f func(context.Context) error) error {
	for {
		within, cancel := context.WithTimeout(ctx, time.Second)
		err := f(within)
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Millisecond):
		}
	}
}

// cuts is how many the random form of the test makes: NATS_CUTS=1000 for the long form.
func cuts() int {
	if n, err := strconv.Atoi(os.Getenv("NATS_CUTS")); err == nil {
		return n
	}
	return 20
}

// bucketEngine is a bucket whose watch is the source.
func bucketEngine(t *testing.T) signalstest.Engine[string] {
	b := startBroker(t, func(o *server.Options) { o.Users = users("p", nil) })
	e := b.bucketEngine()
	e.Revoke = func() { b.reload("p", denied("_INBOX.>")) }
	e.Restore = func() { b.reload("p", nil) }
	return e
}

// replicasEngine is a bucket with three replicas. All keys but some are written at the source's
// server, and those at the others. What is read is a map of this process: even the leader may be
// behind the replica from which the hint comes.
func replicasEngine(t *testing.T) signalstest.Engine[string] {
	c, _ := startReplicas(t)
	var state sync.Map
	at := func(b *broker) (signalstest.Engine[string], func(context.Context, string, int64) error) {
		e := b.bucketEngine()
		return e, func(ctx context.Context, key string, value int64) error {
			state.Store(key, value)
			return e.Write(ctx, key, value)
		}
	}
	e, write := at(c.brokers[0])
	for _, b := range c.brokers[1:] {
		_, elsewhere := at(b)
		e.Elsewhere = append(e.Elsewhere, elsewhere)
	}
	e.Write = write
	e.Read = func(_ context.Context, key string) (int64, error) {
		value, _ := state.Load(key)
		n, _ := value.(int64)
		return n, nil
	}
	return e
}

func (b *broker) bucketEngine() signalstest.Engine[string] {
	ear := startEar(b.t, b)
	hearing, writing := ear.connect("source", nats.UserInfo("source", "p")), b.connect("writer", nats.UserInfo("writer", "writer"))
	_, _ = hearing.Request("nobody", nil, time.Minute) // starts a goroutine of the connection, not of a source
	js, err := jetstream.New(writing)
	require.NoError(b.t, err)
	var kv jetstream.KeyValue
	require.NoError(b.t, insist(b.t.Context(), func(ctx context.Context) error {
		kv, err = js.KeyValue(ctx, bucket)
		if errors.Is(err, jetstream.ErrBucketNotFound) {
			kv, err = js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: bucket})
		}
		if err == nil {
			kv, err = withoutDirectGets(ctx, js)
		}
		return err
	}))
	return signalstest.Engine[string]{
		Source: func() signals.Source[string] { return natssignals.KeyValue(hearing, bucket) },
		Key:    key,
		Write: func(ctx context.Context, key string, value int64) error {
			token, err := natssignals.Encode(key)
			if err != nil {
				return err
			}
			return insist(ctx, func(ctx context.Context) error {
				_, err := kv.Put(ctx, token, strconv.AppendInt(nil, value, 10))
				return err
			})
		},
		Read: func(ctx context.Context, key string) (value int64, err error) {
			token, err := natssignals.Encode(key)
			if err != nil {
				return 0, err
			}
			err = insist(ctx, func(ctx context.Context) error {
				entry, err := kv.Get(ctx, token)
				if errors.Is(err, jetstream.ErrKeyNotFound) {
					return nil
				} else if err != nil {
					return err
				}
				value, err = strconv.ParseInt(string(entry.Value()), 10, 64)
				return err
			})
			return value, err
		},
		Cut:      func() { b.cut(hearing) },
		Stop:     b.stop,
		Start:    b.start,
		Deafen:   func() { ear.deaf.Store(true) },
		Undeafen: func() { ear.deaf.Store(false) },
		Overflow: func(ctx context.Context, _ func()) error {
			return overflow(ctx, hearing, func(i int) error {
				_, err := js.PublishAsync(fmt.Sprintf("$KV.%s.key-%d", bucket, i), nil, jetstream.WithStallWait(time.Minute))
				return err
			})
		},
		Cuts: cuts(),
	}
}

// withoutDirectGets opens the bucket such that its leader answers gets: direct gets and
// ReloadOptions are a data race in the server.
func withoutDirectGets(ctx context.Context, js jetstream.JetStream) (jetstream.KeyValue, error) {
	s, err := js.Stream(ctx, "KV_"+bucket)
	if err != nil {
		return nil, err
	}
	config := s.CachedInfo().Config
	config.AllowDirect = false
	if _, err := js.UpdateStream(ctx, config); err != nil {
		return nil, err
	}
	return js.KeyValue(ctx, bucket)
}

// overflow sends more than a source holds, and waits until its client has dropped some.
func overflow(ctx context.Context, hearing *nats.Conn, send func(i int) error) error {
	const n = 10_000
	before := hearing.Stats().InMsgs
	for i := range n {
		if err := send(i); err != nil {
			return err
		}
	}
	for ctx.Err() == nil && hearing.Stats().InMsgs < before+n {
		time.Sleep(time.Millisecond)
	}
	// The client has read all of them, and its goroutine has yet to hand them to the source: if that
	// began only when the sink takes hints again, the source could keep pace.
	time.Sleep(time.Second)
	return ctx.Err()
}

// subjectEngine is a map of this process, whose writers publish hints on core NATS, at the
// source's server and at the two others of the cluster.
func subjectEngine(t *testing.T) signalstest.Engine[string] {
	brokers := startCluster(t, func(o *server.Options) { o.Users = users("p", nil) }).brokers
	b := brokers[0]
	ear := startEar(t, b)
	hearing := ear.connect("source", nats.UserInfo("source", "p"))
	writing := b.connect("writer", nats.UserInfo("writer", "writer"))
	var state sync.Map
	writeBy := func(nc *nats.Conn, key string, value int64) error {
		state.Store(key, value)
		return natssignals.Hint(nc, "hints.test", key, signals.Unknown)
	}
	write := func(key string, value int64) error { return writeBy(writing, key, value) }
	var elsewhere []func(context.Context, string, int64) error
	for _, b := range brokers[1:] {
		nc := b.connect("elsewhere", nats.UserInfo("writer", "writer"))
		elsewhere = append(elsewhere, func(_ context.Context, key string, value int64) error { return writeBy(nc, key, value) })
	}
	return signalstest.Engine[string]{
		Source: func() signals.Source[string] {
			s, err := natssignals.Subjects(hearing, "hints.test")
			require.NoError(t, err)
			return s
		},
		Key: key,
		Write: func(ctx context.Context, key string, value int64) error {
			return insist(ctx, func(context.Context) error { return write(key, value) })
		},
		Read: func(_ context.Context, key string) (int64, error) {
			value, _ := state.Load(key)
			n, _ := value.(int64)
			return n, nil
		},
		Cut:   func() { b.cut(hearing) },
		Stop:  b.stop,
		Start: b.start,
		Revoke: func() {
			b.reload("p", &server.Permissions{Subscribe: &server.SubjectPermission{Deny: []string{"hints.test.>"}}})
		},
		Restore:   func() { b.reload("p", nil) },
		Deafen:    func() { ear.deaf.Store(true) },
		Undeafen:  func() { ear.deaf.Store(false) },
		Elsewhere: elsewhere,
		Overflow: func(ctx context.Context, _ func()) error {
			return overflow(ctx, hearing, func(i int) error { return write(key(i), 1) })
		},
		Cuts: cuts(),
	}
}
