package main

import (
	"context"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	replicasv1 "github.com/delayedop/purgatory/examples/heavy/replicas/replicas/v1"
	"github.com/delayedop/purgatory/examples/heavy/replicas/replicas/v1/replicasv1connect"
	"github.com/delayedop/purgatory/examples/heavy/replicas/service"
	"github.com/delayedop/purgatory/examples/heavy/replicas/store"
	"github.com/delayedop/purgatory/signals"
)

// memory is a store in this process.
type memory struct {
	hints   chan store.Entry // with the key as the value
	blocked atomic.Bool      // Get waits until its context ends
	lost    atomic.Int64     // so many calls of Get do so

	mu struct {
		sync.Mutex
		entries  map[string]store.Entry
		revision int64
	}
}

func newMemory() *memory {
	m := &memory{hints: make(chan store.Entry, 100)}
	m.mu.entries = make(map[string]store.Entry)
	return m
}

func (m *memory) Put(_ context.Context, key string, value []byte) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.revision++
	m.mu.entries[key] = store.Entry{Value: value, Revision: m.mu.revision}
	m.hints <- store.Entry{Value: []byte(key), Revision: m.mu.revision}
	return m.mu.revision, nil
}

func (m *memory) Get(ctx context.Context, key string) (store.Entry, error) {
	if m.blocked.Load() || m.lost.Add(-1) >= 0 {
		<-ctx.Done()
		return store.Entry{}, ctx.Err()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.entries[key], nil
}

func (m *memory) Revisions(context.Context, []string) (map[string]int64, error) { return nil, nil }
func (m *memory) Close()                                                        {}

func (m *memory) Source() signals.Source[string] {
	return signals.SourceFunc[string](func(ctx context.Context, sink signals.Sink[string]) error {
		sink.Missed(signals.ErrSubscribed)
		for {
			select {
			case h := <-m.hints:
				sink.Changed(string(h.Value), h.Revision)
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
}

// way is how a client talks to a replica.
type way struct {
	name    string
	content string // the requests' Content-Type
	timeout [2]string
	options []connect.ClientOption
}

var ways = []way{
	{"Connect", "application/proto", [2]string{"Connect-Timeout-Ms", "200"}, nil},
	{"JSON", "application/json", [2]string{"Connect-Timeout-Ms", "200"}, []connect.ClientOption{connect.WithProtoJSON()}},
	{"gRPC", "application/grpc", [2]string{"Grpc-Timeout", "200m"}, []connect.ClientOption{connect.WithGRPC()}},
	{"gRPC-Web", "application/grpc-web+proto", [2]string{"Grpc-Timeout", "200m"}, []connect.ClientOption{connect.WithGRPCWeb()}},
}

// carrier is what is below it.
type carrier struct {
	name  string
	proto string
	tls   bool
}

var carriers = []carrier{{"HTTP 1.1", "HTTP/1.1", false}, {"HTTP 2", "HTTP/2.0", false}, {"HTTP 2 with TLS", "HTTP/2.0", true}}

// rpcReplica is a replica in this process, and a client of it.
type rpcReplica struct {
	store   *memory
	service *service.Service
	client  replicasv1connect.StateClient
	// hurried is a client whose requests have a deadline of 200 ms that only the replica
	// knows.
	hurried replicasv1connect.StateClient
	// seen are the protocols and content types of the requests.
	seen *sync.Map
}

type withHeader struct {
	http.RoundTripper
	header [2]string
}

func (w withHeader) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set(w.header[0], w.header[1])
	return w.RoundTripper.RoundTrip(r)
}

func startRPC(t *testing.T, w way, c carrier, maxWaits int) rpcReplica {
	t.Helper()
	r := rpcReplica{store: newMemory(), seen: new(sync.Map)}
	var err error
	r.service, err = service.New(r.store, maxWaits, time.Hour, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var hearing sync.WaitGroup
	hearing.Go(func() { _ = r.service.Run(ctx) })
	h := httptest.NewUnstartedServer(nil)
	h.Config = newServer(r.service)
	serve := h.Config.Handler
	h.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		r.seen.Store(request.Proto+" "+request.Header.Get("Content-Type"), true)
		serve.ServeHTTP(w, request)
	})
	protocols := new(http.Protocols)
	protocols.SetHTTP1(c.proto == "HTTP/1.1")
	protocols.SetUnencryptedHTTP2(c.proto == "HTTP/2.0" && !c.tls)
	protocols.SetHTTP2(c.tls)
	transport := &http.Transport{Protocols: protocols}
	if c.tls {
		h.EnableHTTP2 = true
		h.StartTLS()
		transport.TLSClientConfig = h.Client().Transport.(*http.Transport).TLSClientConfig
	} else {
		h.Start()
	}
	t.Cleanup(func() {
		r.service.Drain()
		transport.CloseIdleConnections()
		h.Close()
		cancel()
		hearing.Wait()
	})
	require.NoError(t, until(within(t), func() bool { _, hints := r.service.Stats(); return hints.Standing }))
	r.client = replicasv1connect.NewStateClient(&http.Client{Transport: transport}, h.URL, w.options...)
	r.hurried = replicasv1connect.NewStateClient(&http.Client{Transport: withHeader{transport, w.timeout}}, h.URL, w.options...)
	return r
}

func (r rpcReplica) put(ctx context.Context, t *testing.T, value string) int64 {
	t.Helper()
	a, err := r.client.Put(ctx, connect.NewRequest(&replicasv1.PutRequest{Key: "a", Value: []byte(value)}))
	require.NoError(t, err)
	return a.Msg.Revision
}

type watched struct {
	*replicasv1.WatchResponse
	err error
}

func watch(ctx context.Context, client replicasv1connect.StateClient, after int64) <-chan watched {
	c := make(chan watched, 1)
	go func() {
		a, err := client.Watch(ctx, connect.NewRequest(&replicasv1.WatchRequest{Key: "a", AfterRevision: after}))
		if err != nil {
			c <- watched{err: err}
			return
		}
		c <- watched{a.Msg, nil}
	}()
	return c
}

func (r rpcReplica) awaitPending(ctx context.Context, t *testing.T, n int64) {
	t.Helper()
	require.NoError(t, until(ctx, func() bool { waits, _ := r.service.Stats(); return waits.Pending == n }), "%d waits", n)
}

func TestEveryProtocolOnEveryCarrier(t *testing.T) {
	for _, c := range carriers {
		for _, w := range ways {
			if w.name == "gRPC" && c.proto != "HTTP/2.0" {
				continue // it needs HTTP/2
			}
			t.Run(w.name+" over "+c.name, func(t *testing.T) {
				t.Parallel()
				t.Run("put, get, and a watch that waits", func(t *testing.T) { putGetWatch(t, startRPC(t, w, c, 10), c.proto+" "+w.content) })
				t.Run("bad requests", func(t *testing.T) { badRequests(t, startRPC(t, w, c, 10)) })
				t.Run("deadlines", func(t *testing.T) { deadlines(t, startRPC(t, w, c, 10)) })
				t.Run("full, left, stopping", func(t *testing.T) { fullLeftStopping(t, startRPC(t, w, c, 1)) })
			})
		}
	}
}

func putGetWatch(t *testing.T, r rpcReplica, seen string) {
	ctx := within(t)
	first := r.put(ctx, t, "one")
	got := watch(ctx, r.client, first)
	r.awaitPending(ctx, t, 1)
	assert.Empty(t, got)
	second := r.put(ctx, t, "two")
	assert.Greater(t, second, first)
	a := <-got
	require.NoError(t, a.err)
	assert.True(t, a.Changed)
	assert.Equal(t, "two", string(a.Entry.Value))
	assert.Equal(t, second, a.Entry.Revision)
	e, err := r.client.Get(ctx, connect.NewRequest(&replicasv1.GetRequest{Key: "a"}))
	require.NoError(t, err)
	assert.Equal(t, "two", string(e.Msg.Entry.Value))
	var all []any
	r.seen.Range(func(k, _ any) bool { all = append(all, k); return true })
	assert.Equal(t, []any{seen}, all)
}

// badRequests are those that no replica can answer, now or later: they must not send a client from one to the next.
func badRequests(t *testing.T, r rpcReplica) {
	ctx := within(t)
	refused := func(what string, err error) {
		t.Helper()
		assert.Equal(t, connect.CodeInvalidArgument, connect.CodeOf(err), "%s: %v", what, err)
	}
	for what, key := range map[string]string{"no key": "", "a long key": strings.Repeat("k", 257), "a zero byte": "a\x00b"} {
		_, err := r.client.Put(ctx, connect.NewRequest(&replicasv1.PutRequest{Key: key}))
		refused(what, err)
		_, err = r.client.Get(ctx, connect.NewRequest(&replicasv1.GetRequest{Key: key}))
		refused(what, err)
		_, err = r.client.Watch(ctx, connect.NewRequest(&replicasv1.WatchRequest{Key: key}))
		refused(what, err)
	}
	for what, after := range map[string]int64{"before the first": -1, "after the last": math.MaxInt64} {
		_, err := r.hurried.Watch(ctx, connect.NewRequest(&replicasv1.WatchRequest{Key: "a", AfterRevision: after}))
		refused(what, err)
	}
	_, err := r.client.Put(ctx, connect.NewRequest(&replicasv1.PutRequest{Key: "a", Value: make([]byte, 512<<10+1)}))
	refused("a long value", err)
	_, err = r.client.Put(ctx, connect.NewRequest(&replicasv1.PutRequest{Key: "a", Value: make([]byte, 2<<20)}))
	assert.Equal(t, connect.CodeResourceExhausted, connect.CodeOf(err), "a request that is not read as a whole: %v", err)
	_, err = r.client.Put(ctx, connect.NewRequest(&replicasv1.PutRequest{Key: strings.Repeat("k", 256), Value: make([]byte, 512<<10)}))
	assert.NoError(t, err)
}

func deadlines(t *testing.T, r rpcReplica) {
	ctx := within(t)
	revision := r.put(ctx, t, "one")
	// The replica answers with what it has a moment before the deadline; on a busy machine
	// the deadline may come first.
	if a := <-watch(ctx, r.hurried, revision); a.err == nil {
		assert.False(t, a.Changed)
		assert.Equal(t, "one", string(a.Entry.Value))
	} else {
		assert.Equal(t, connect.CodeDeadlineExceeded, connect.CodeOf(a.err))
	}
	r.store.blocked.Store(true)
	a := <-watch(ctx, r.hurried, revision)
	assert.Equal(t, connect.CodeDeadlineExceeded, connect.CodeOf(a.err), "%v", a.err)
	_, err := r.hurried.Get(ctx, connect.NewRequest(&replicasv1.GetRequest{Key: "a"}))
	assert.Equal(t, connect.CodeDeadlineExceeded, connect.CodeOf(err), "%v", err)
	own, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	a = <-watch(own, r.client, revision)
	assert.Equal(t, connect.CodeDeadlineExceeded, connect.CodeOf(a.err), "%v", a.err)
	r.awaitPending(ctx, t, 0)
}

func fullLeftStopping(t *testing.T, r rpcReplica) {
	ctx := within(t)
	revision := r.put(ctx, t, "one")
	leaving, leave := context.WithCancel(ctx)
	gone := watch(leaving, r.client, revision)
	r.awaitPending(ctx, t, 1)
	a := <-watch(ctx, r.client, revision)
	assert.Equal(t, connect.CodeResourceExhausted, connect.CodeOf(a.err), "%v", a.err)
	leave()
	a = <-gone
	assert.Equal(t, connect.CodeCanceled, connect.CodeOf(a.err), "%v", a.err)
	r.awaitPending(ctx, t, 0)
	handed := watch(ctx, r.client, revision)
	r.awaitPending(ctx, t, 1)
	r.service.Drain()
	a = <-handed
	assert.Equal(t, connect.CodeUnavailable, connect.CodeOf(a.err), "%v", a.err)
	a = <-watch(ctx, r.client, revision)
	assert.Equal(t, connect.CodeUnavailable, connect.CodeOf(a.err), "%v", a.err)
}

// A request that the engine never answers, because the connection broke, does not hold a
// wait up until its deadline.
func TestAReadThatIsNeverAnsweredIsMadeAgain(t *testing.T) {
	ctx := within(t)
	r := startRPC(t, ways[0], carriers[0], 10)
	revision := r.put(ctx, t, "one")
	got := watch(ctx, r.client, revision)
	r.awaitPending(ctx, t, 1)
	r.store.lost.Store(1)
	r.put(ctx, t, "two")
	a := <-got
	require.NoError(t, a.err)
	assert.Equal(t, "two", string(a.Entry.Value))
	r.store.lost.Store(1)
	e, err := r.client.Get(ctx, connect.NewRequest(&replicasv1.GetRequest{Key: "a"}))
	require.NoError(t, err)
	assert.Equal(t, "two", string(e.Msg.Entry.Value))
}
