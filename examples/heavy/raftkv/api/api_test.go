package api_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/delayedop/purgatory/examples/heavy/raftcheck/client"
	"github.com/delayedop/purgatory/examples/heavy/raftkv/api"
	"github.com/delayedop/purgatory/examples/heavy/raftkv/node"
	"github.com/delayedop/purgatory/internal/watchdog"
	"github.com/delayedop/purgatory/signals/signalstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(watchdog.Over(m)) }

// patient bounds what would otherwise hang; no test says how long a thing takes.
const patient = 60 * time.Second

// plain is a client that keeps no connections.
var plain = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// start starts a cluster with servers, and returns clients of its nodes.
func start(t *testing.T, n int) (servers []*api.Server, clients []*client.Client) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	var all []node.Member
	for i := range n {
		all = append(all, node.Member{ID: fmt.Sprintf("n%d", i+1), Address: signalstest.FreeAddress(t)})
	}
	for _, m := range all {
		opened, err := node.Open(node.Config{
			Member: m, Folder: t.TempDir() + "/data", Bootstrap: all, Heartbeat: 200 * time.Millisecond, Logger: log,
		})
		require.NoError(t, err)
		s := api.Serve(opened, log)
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), patient)
			defer cancel()
			require.NoError(t, s.Close(ctx))
		})
		c := client.New(m.Address)
		t.Cleanup(c.Close)
		servers, clients = append(servers, s), append(clients, c)
	}
	require.Eventually(t, func() bool {
		_, err := clients[0].Put(context.Background(), "first", "first", time.Second)
		return err == nil
	}, patient, 10*time.Millisecond)
	return servers, clients
}

// TestEveryNodeAnswersEveryCall writes on one node, and reads and watches on every other.
func TestEveryNodeAnswersEveryCall(t *testing.T) {
	_, clients := start(t, 3)
	ctx := context.Background()
	var last uint64
	for round := range 9 {
		watched := make(chan error, len(clients))
		value := fmt.Sprint("value ", round)
		for _, c := range clients {
			go func() {
				found, err := c.Watch(ctx, "k", last, patient)
				if err == nil && found.Value != value {
					err = fmt.Errorf("watch found %q, not %q", found.Value, value)
				}
				watched <- err
			}()
		}
		revision, err := clients[round%3].Put(ctx, "k", value, patient)
		require.NoError(t, err)
		require.Greater(t, revision, last)
		for _, c := range clients {
			found, err := c.Get(ctx, "k", patient)
			require.NoError(t, err)
			require.Equal(t, api.Found{Key: "k", Value: value, Revision: revision}, found)
		}
		for range clients {
			require.NoError(t, <-watched)
		}
		last = revision
	}
	_, err := clients[1].Get(ctx, "never written", patient)
	require.ErrorIs(t, err, client.ErrNotFound)
	_, err = clients[2].Watch(ctx, "k", last, 5*time.Millisecond)
	require.ErrorIs(t, err, client.ErrNothingNew)
	for _, c := range clients {
		require.Eventually(t, func() bool { // a node's own rounds may need a moment
			s, err := c.Status(ctx)
			require.NoError(t, err)
			return s.Waiting == 0
		}, patient, time.Millisecond)
	}
}

// TestClosingAnswersThoseWhoWait has watchers wait while their node shuts down.
func TestClosingAnswersThoseWhoWait(t *testing.T) {
	servers, clients := start(t, 1)
	answers := make(chan error, 10)
	for range cap(answers) {
		go func() {
			_, err := clients[0].Watch(context.Background(), "k", 0, patient)
			answers <- err
		}()
	}
	require.Eventually(t, func() bool { return servers[0].Node().Status().Waiting == cap(answers) }, patient, time.Millisecond)
	ctx, cancel := context.WithTimeout(context.Background(), patient)
	defer cancel()
	require.NoError(t, servers[0].Close(ctx))
	for range cap(answers) {
		require.ErrorContains(t, <-answers, "shutting down")
	}
}

// TestAJoinThatTakesTooLongEnds: with the first member that is not there the majority is gone.
func TestAJoinThatTakesTooLongEnds(t *testing.T) {
	servers, _ := start(t, 1)
	for _, id := range []string{"n7", "n8", "n9"} {
		timeout := "50ms"
		if id == "n7" {
			timeout = "10s" // it joins, also on a busy machine
		}
		resp, err := plain.Post("http://"+servers[0].Node().Status().Address+"/v1/join?timeout="+timeout, "", strings.NewReader(`{"id":"`+id+`","address":"`+signalstest.FreeAddress(t)+`"}`))
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		require.NoError(t, err)
		if id == "n7" {
			require.Equal(t, 200, resp.StatusCode, "%s: the engine asks the majority of before", body)
			continue
		}
		require.Contains(t, []int{503, 504}, resp.StatusCode, "%s", body)
	}
}

// zeros is a body of n bytes that is JSON as far as it has been read.
type zeros struct{ left int }

func (z *zeros) Read(b []byte) (int, error) {
	if z.left == 0 {
		return 0, io.EOF
	}
	n := min(len(b), z.left)
	for i := range b[:n] {
		b[i] = '0'
	}
	z.left -= n
	return n, nil
}

func TestBadRequests(t *testing.T) {
	servers, _ := start(t, 1)
	for _, test := range []struct {
		name, method, target string
		body                 io.Reader
		want                 int
		says                 string
	}{
		{"100 MB", "POST", "/v1/put", io.MultiReader(strings.NewReader(`{"key":"k","value":"`), &zeros{100 << 20}), 413, "too large"},
		{"2 MB", "POST", "/v1/put", io.MultiReader(strings.NewReader(`{"key":"k","value":"`), &zeros{2 << 20}, strings.NewReader(`"}`)), 413, "too large"},
		{"no JSON", "POST", "/v1/put", strings.NewReader("k=v"), 400, "bad request"},
		{"half a JSON", "POST", "/v1/put", strings.NewReader(`{"key":"k"`), 400, "bad request"},
		{"two JSONs", "POST", "/v1/put", strings.NewReader(`{"key":"k"}{"key":"l"}`), 400, "more than one"},
		{"unknown field", "POST", "/v1/put", strings.NewReader(`{"key":"k","ttl":1}`), 400, "ttl"},
		{"no key", "POST", "/v1/put", strings.NewReader(`{"value":"v"}`), 400, `"written":"no"`},
		{"long key", "POST", "/v1/put", strings.NewReader(`{"key":"` + strings.Repeat("k", 2000) + `"}`), 413, "key of 2000 bytes"},
		{"timeout in no unit", "POST", "/v1/put?timeout=5", strings.NewReader(`{"key":"k"}`), 400, "timeout"},
		{"negative timeout", "POST", "/v1/put?timeout=-1s", strings.NewReader(`{"key":"k"}`), 400, "timeout"},
		{"a day", "GET", "/v1/watch?key=k&timeout=24h", nil, 400, "timeout"},
		{"watch from nowhere", "GET", "/v1/watch?key=k&after=now", nil, 400, "after"},
		{"watch from the end", "GET", "/v1/watch?key=k&after=18446744073709551615", nil, 400, "revision"},
		{"get nothing", "GET", "/v1/get", nil, 400, "bad key"},
		{"get nothing, stale", "GET", "/v1/get?consistency=stale", nil, 404, "never written"},
		{"another consistency", "GET", "/v1/get?key=k&consistency=eventual", nil, 400, "consistency"},
		{"unknown path", "GET", "/v2/get", nil, 404, ""},
		{"wrong method", "GET", "/v1/put", nil, 405, ""},
		{"member without a port", "POST", "/v1/join", strings.NewReader(`{"id":"n9","address":"here"}`), 409, "n9"},
	} {
		req, err := http.NewRequest(test.method, "http://"+servers[0].Node().Status().Address+test.target, test.body)
		require.NoError(t, err)
		resp, err := plain.Do(req)
		require.NoError(t, err, test.name)
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		require.NoError(t, err, test.name)
		require.Equal(t, test.want, resp.StatusCode, "%s: %s", test.name, body)
		require.Contains(t, string(body), test.says, test.name)
	}
	s := servers[0].Node().Status()
	require.Zero(t, s.Waiting)
	require.Equal(t, 1, s.Keys, "only the first key was written")
}

// TestStrangers connects with what is neither the engine's protocol nor HTTP.
func TestStrangers(t *testing.T) {
	servers, clients := start(t, 1)
	address := strings.TrimPrefix("http://"+servers[0].Node().Status().Address, "http://")
	for _, first := range []string{"\x7f\xff\xff", "\x00garbage", "\x09\x00\x00", "SSH-2.0-stranger\r\n\r\n", ""} {
		c, err := net.Dial("tcp", address)
		require.NoError(t, err)
		_, err = c.Write([]byte(first))
		require.NoError(t, err)
		c.Close()
	}
	_, err := clients[0].Put(context.Background(), "k", "v", patient)
	require.NoError(t, err)
}
