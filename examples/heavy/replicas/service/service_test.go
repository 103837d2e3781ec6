package service_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	replicasv1 "github.com/delayedop/purgatory/examples/heavy/replicas/replicas/v1"
	"github.com/delayedop/purgatory/examples/heavy/replicas/replicas/v1/replicasv1connect"
	"github.com/delayedop/purgatory/examples/heavy/replicas/service"
	"github.com/delayedop/purgatory/examples/heavy/replicas/store"
	"github.com/delayedop/purgatory/internal/watchdog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(watchdog.Over(m)) }

// startNATS returns the address of a server in this process.
func startNATS(t *testing.T) string {
	t.Helper()
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true})
	require.NoError(t, err)
	go s.Start()
	require.True(t, s.ReadyForConnections(30*time.Second))
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	return s.ClientURL()
}

// replica is one replica in this process.
type replica struct {
	*service.Service
	url    string
	client replicasv1connect.StateClient
}

func startReplica(t *testing.T, url string, maxWaits int) replica {
	t.Helper()
	s, err := store.NATS(t.Context(), url)
	require.NoError(t, err)
	v, err := service.New(s, maxWaits, 30*time.Second, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var hearing sync.WaitGroup
	hearing.Go(func() { _ = v.Run(ctx) })
	mux := http.NewServeMux()
	mux.Handle(replicasv1connect.NewStateHandler(v))
	h := httptest.NewServer(mux)
	t.Cleanup(func() {
		v.Drain()
		h.Close()
		cancel()
		hearing.Wait()
		s.Close()
	})
	eventually(t, func() bool { _, hints := v.Stats(); return hints.Standing })
	return replica{v, h.URL, replicasv1connect.NewStateClient(h.Client(), h.URL)}
}

func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		require.True(t, time.Now().Before(deadline), "did not happen")
	}
}

func (r replica) pending() int64 { waits, _ := r.Stats(); return waits.Pending }

type answer struct {
	*replicasv1.WatchResponse
	err error
}

func (r replica) watch(ctx context.Context, key string, after int64) <-chan answer {
	c := make(chan answer, 1)
	go func() {
		a, err := r.client.Watch(ctx, connect.NewRequest(&replicasv1.WatchRequest{Key: key, AfterRevision: after}))
		if err != nil {
			c <- answer{err: err}
			return
		}
		c <- answer{a.Msg, nil}
	}()
	return c
}

func (r replica) put(t *testing.T, key, value string) int64 {
	t.Helper()
	a, err := r.client.Put(t.Context(), connect.NewRequest(&replicasv1.PutRequest{Key: key, Value: []byte(value)}))
	require.NoError(t, err)
	return a.Msg.Revision
}

func TestAPutAtOneReplicaAnswersAWatchAtAnother(t *testing.T) {
	url := startNATS(t)
	a, b := startReplica(t, url, 100), startReplica(t, url, 100)
	after := int64(0)
	for _, value := range []string{"one", "two", "three"} {
		got := b.watch(t.Context(), "a key > *", after)
		eventually(t, func() bool { return b.pending() == 1 })
		revision := a.put(t, "a key > *", value)
		w := <-got
		require.NoError(t, w.err)
		assert.True(t, w.Changed)
		assert.Equal(t, value, string(w.Entry.Value))
		assert.Equal(t, revision, w.Entry.Revision)
		after = revision
	}
	w := <-b.watch(t.Context(), "a key > *", 0) // what has happened already is answered at once
	require.NoError(t, w.err)
	assert.Equal(t, "three", string(w.Entry.Value))
	e, err := b.client.Get(t.Context(), connect.NewRequest(&replicasv1.GetRequest{Key: "a key > *"}))
	require.NoError(t, err)
	assert.Equal(t, after, e.Msg.Entry.Revision)
}

func TestHowAWatchEndsWithoutAChange(t *testing.T) {
	url := startNATS(t)
	r := startReplica(t, url, 1)
	revision := r.put(t, "a", "value")
	// Its deadline: it answers with what it has.
	within, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if w := <-r.watch(within, "a", revision); w.err == nil { // on a busy machine the answer may be too late
		assert.False(t, w.Changed)
		assert.Equal(t, "value", string(w.Entry.Value))
	} else {
		assert.Equal(t, connect.CodeDeadlineExceeded, connect.CodeOf(w.err))
	}
	eventually(t, func() bool { return r.pending() == 0 })
	// A full purgatory, a client that leaves, a replica that stops.
	leaving, leave := context.WithCancel(t.Context())
	gone := r.watch(leaving, "a", revision)
	eventually(t, func() bool { return r.pending() == 1 })
	assert.Equal(t, connect.CodeResourceExhausted, connect.CodeOf((<-r.watch(t.Context(), "a", revision)).err))
	leave()
	assert.Equal(t, connect.CodeCanceled, connect.CodeOf((<-gone).err))
	eventually(t, func() bool { return r.pending() == 0 })
	handed := r.watch(t.Context(), "a", revision)
	eventually(t, func() bool { return r.pending() == 1 })
	r.Drain()
	assert.Equal(t, connect.CodeUnavailable, connect.CodeOf((<-handed).err))
	assert.Equal(t, connect.CodeUnavailable, connect.CodeOf((<-r.watch(t.Context(), "a", revision)).err))
	_, err := r.client.Put(t.Context(), connect.NewRequest(&replicasv1.PutRequest{}))
	assert.Equal(t, connect.CodeInvalidArgument, connect.CodeOf(err))
	assert.Equal(t, connect.CodeInvalidArgument, connect.CodeOf((<-r.watch(t.Context(), "", 0)).err))
}

func TestCurlSpeaksJSON(t *testing.T) {
	r := startReplica(t, startNATS(t), 10)
	for method, body := range map[string]string{"Put": `{"key":"a","value":"YQ=="}`, "Get": `{"key":"a"}`, "Watch": `{"key":"a"}`} {
		if method != "Put" {
			r.put(t, "a", "a")
		}
		answer, err := http.Post(r.url+"/replicas.v1.State/"+method, "application/json", strings.NewReader(body))
		require.NoError(t, err)
		assert.Equal(t, http.StatusOK, answer.StatusCode, method)
		answer.Body.Close()
	}
	http.DefaultClient.CloseIdleConnections()
}
