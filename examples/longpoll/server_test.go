package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/examples/internal/httpload/httploadtest"
)

// serving starts a server with these flags, and shuts it down with the test.
func serving(t *testing.T, args ...string) *server {
	t.Helper()
	return servingWith(t, slog.New(slog.DiscardHandler), args...)
}

func servingWith(t *testing.T, log *slog.Logger, args ...string) *server {
	t.Helper()
	cfg, err := parseFlags(append([]string{"-listen", "127.0.0.1:0"}, args...), io.Discard)
	require.NoError(t, err)
	s, err := startServer(cfg, log)
	require.NoError(t, err)
	t.Cleanup(func() {
		if !s.draining.Load() {
			assert.NoError(t, s.shutdown())
		}
		assert.Zero(t, s.waiting.NumDelayed())
		assert.Zero(t, s.waiting.Watched())
	})
	return s
}

func connected(t *testing.T, s *server) *client {
	t.Helper()
	c := newClient(s.url(), 10)
	t.Cleanup(c.close)
	return c
}

func publish(t *testing.T, c *client, topic string, bodies ...string) {
	t.Helper()
	for _, body := range bodies {
		r, err := c.publish(t.Context(), topic, body)
		require.NoError(t, err)
		require.Equal(t, http.StatusCreated, r.status, r.body.Error)
	}
}

// get asks for a path, and gives the reply when it comes.
func get(t *testing.T, c *client, path string) <-chan reply {
	t.Helper()
	replies := make(chan reply, 1)
	go func() {
		r, err := c.do(context.WithoutCancel(t.Context()), http.MethodGet, path, "")
		assert.NoError(t, err)
		replies <- r
	}()
	return replies
}

// waits returns when this many GETs wait.
func waits(t *testing.T, s *server, n int) {
	t.Helper()
	require.NoError(t, until(t.Context(), func() error { return waitingIs(s.waiting.NumDelayed, n) }))
}

func TestGetOfWhatIsThere(t *testing.T) {
	s := serving(t)
	c := connected(t, s)
	publish(t, c, "news", "a", "b", "c")
	r := <-get(t, c, "/topics/news?after=0")
	assert.Equal(t, http.StatusOK, r.status)
	assert.Equal(t, []message{{1, "b"}, {2, "c"}}, r.body.Messages)
	assert.Equal(t, extent{0, 2}, r.body.extent)
	assert.Len(t, (<-get(t, c, "/topics/news?after=-1")).body.Messages, 3)
	assert.EqualValues(t, 2, s.waiting.Stats().Satisfied)
	assert.Zero(t, s.waiting.Stats().Checks, "nobody had to wait")
}

func TestGetWaitsForNews(t *testing.T) {
	s := serving(t)
	c := connected(t, s)
	publish(t, c, "news", "old")
	fromNowOn := get(t, c, "/topics/news") // after: the newest so far
	waits(t, s, 1)
	afterIt := get(t, c, "/topics/news?after=0")
	elsewhere := get(t, c, "/topics/sports?timeout=1m")
	waits(t, s, 3)
	publish(t, c, "news", "new")
	for _, replies := range []<-chan reply{fromNowOn, afterIt} {
		r := <-replies
		assert.Equal(t, http.StatusOK, r.status)
		assert.Equal(t, []message{{1, "new"}}, r.body.Messages)
	}
	publish(t, c, "sports", "first")
	assert.Equal(t, []message{{0, "first"}}, (<-elsewhere).body.Messages)
}

// Only those are tried who wait for a position that has been reached.
func TestGetWaitsForSeveralMessages(t *testing.T) {
	s := serving(t)
	c := connected(t, s)
	three := get(t, c, "/topics/news?after=-1&min=3")
	waits(t, s, 1)
	checks := s.waiting.Stats().Checks
	publish(t, c, "news", "a", "b")
	require.NoError(t, until(t.Context(), func() error {
		if s.waiting.Stats().Signals < 2 {
			return errors.New("not signalled yet")
		}
		return nil
	}))
	assert.Equal(t, checks, s.waiting.Stats().Checks)
	waits(t, s, 1)
	publish(t, c, "news", "c")
	assert.Equal(t, []message{{0, "a"}, {1, "b"}, {2, "c"}}, (<-three).body.Messages)
}

func TestTimeoutAnswersWithWhatThereIs(t *testing.T) {
	c := connected(t, serving(t))
	for _, timeout := range []string{"0", "1ms"} {
		r := <-get(t, c, "/topics/none?timeout="+timeout)
		assert.Equal(t, http.StatusOK, r.status)
		assert.Equal(t, []message{}, r.body.Messages)
		assert.Equal(t, extent{0, -1}, r.body.extent)
	}
	publish(t, c, "news", "a")
	r := <-get(t, c, "/topics/news?after=-1&min=2&timeout=1ms")
	assert.Equal(t, http.StatusOK, r.status)
	assert.Equal(t, []message{{0, "a"}}, r.body.Messages)
}

func TestOffsetsThatAreGoneOrNotThereYet(t *testing.T) {
	c := connected(t, serving(t, "-max-messages", "2"))
	publish(t, c, "news", "a", "b", "c", "d", "e")
	for _, after := range []string{"-1", "0", "1"} {
		r := <-get(t, c, "/topics/news?after="+after)
		assert.Equal(t, http.StatusGone, r.status)
		assert.Equal(t, extent{3, 4}, r.body.extent)
		assert.Equal(t, "messages after "+after+` are gone: the oldest that topic "news" keeps is 3`, r.body.Error)
	}
	assert.Equal(t, []message{{3, "d"}, {4, "e"}}, (<-get(t, c, "/topics/news?after=2")).body.Messages)

	r := <-get(t, c, "/topics/news?after=5")
	assert.Equal(t, http.StatusRequestedRangeNotSatisfiable, r.status)
	assert.Equal(t, extent{3, 4}, r.body.extent)
	assert.Equal(t, `after 5: topic "news" has come to offset 4 only`, r.body.Error)
}

// A GET that waits for several messages is answered when the first of them goes.
func TestGetThatLosesMessagesWhileItWaits(t *testing.T) {
	s := serving(t, "-max-messages", "2")
	c := connected(t, s)
	two := get(t, c, "/topics/news?after=-1&min=2")
	waits(t, s, 1)
	for _, body := range []string{"a", "b", "c"} { // published before anybody is told
		_, err := s.topics.append("news", body)
		require.NoError(t, err)
	}
	s.waiting.SignalUpTo("news", 2)
	assert.Equal(t, http.StatusGone, (<-two).status)
}

func TestBadInputIsNamed(t *testing.T) {
	c := connected(t, serving(t, "-max-topics", "1", "-max-message-size", "10", "-max-wait", "1m"))
	publish(t, c, "news", "0123456789")
	for _, test := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"GET", "/topics/news?after=x", "", 400, `after "x": must be the offset of the last message that you have, or -1 for none`},
		{"GET", "/topics/news?after=-2", "", 400, `after "-2": must be`},
		{"GET", "/topics/news?after=9223372036854775808", "", 400, `after "9223372036854775808": must be`},
		{"GET", "/topics/news?after=9223372036854775807", "", 416, `after 9223372036854775807: topic "news" has come to offset 0 only`},
		{"GET", "/topics/news?timeout=10", "", 400, `timeout "10": must be a duration with its unit, such as 500ms or 30s, from 0s to 1m0s`},
		{"GET", "/topics/news?timeout=-1s", "", 400, `timeout "-1s": must be`},
		{"GET", "/topics/news?timeout=61s", "", 400, `timeout "61s": must be`},
		{"GET", "/topics/news?min=0", "", 400, `min "0": must be a number of messages from 1 to 100`},
		{"GET", "/topics/news?min=101", "", 400, `min "101": must be`},
		{"GET", "/topics/news?afer=1", "", 400, `unknown parameter "afer": there are after, min and timeout`},
		{"GET", "/topics/news?after=1&after=2", "", 400, `after is given 2 times: ["1" "2"]`},
		{"GET", "/topics/news?after=%zz", "", 400, `query "after=%zz": invalid URL escape`},
		{"GET", "/topics/no%20news", "", 400, `topic "no news": must be 1 to 100 of the characters`},
		{"GET", "/topics/" + strings.Repeat("n", 101), "", 400, `must be 1 to 100`},
		{"POST", "/topics/no%2Fnews", "x", 400, `topic "no/news": must be`},
		{"POST", "/topics/news", "", 400, "message is empty"},
		{"POST", "/topics/news", "\xff", 400, "message is not text"},
		{"POST", "/topics/news", "0123456789x", 413, "message is larger than 10 bytes"},
		{"POST", "/topics/sports", "x", 507, `topic "sports": there are too many topics: the maximum is 1`},
	} {
		r, err := c.do(t.Context(), test.method, test.path, test.body)
		require.NoError(t, err, "%s %s", test.method, test.path)
		assert.Equal(t, test.status, r.status, "%s %s", test.method, test.path)
		assert.Contains(t, r.body.Error, test.want)
	}
}

func TestOneMoreThanMayWait(t *testing.T) {
	s := serving(t, "-max-waiting", "2")
	c := connected(t, s)
	first, second := get(t, c, "/topics/a"), get(t, c, "/topics/b")
	waits(t, s, 2)
	r := <-get(t, c, "/topics/c")
	assert.Equal(t, http.StatusServiceUnavailable, r.status)
	assert.Equal(t, "1", r.retryAfter)
	assert.Equal(t, "2 requests are waiting already", r.body.Error)
	publish(t, c, "a", "x")
	publish(t, c, "b", "x")
	assert.Equal(t, http.StatusOK, (<-first).status)
	assert.Equal(t, http.StatusOK, (<-second).status)
}

func TestDisconnectedClientLeavesNothingBehind(t *testing.T) {
	s := serving(t)
	c := connected(t, s)
	const clients = 20
	ctx, leave := context.WithCancel(t.Context())
	errs := make(chan error)
	for range clients {
		go func() {
			_, err := c.poll(ctx, "news", -1, time.Minute)
			errs <- err
		}()
	}
	waits(t, s, clients)
	leave()
	for range clients {
		assert.ErrorIs(t, <-errs, context.Canceled)
	}
	waits(t, s, 0)
	assert.Zero(t, s.waiting.Watched())
	assert.EqualValues(t, clients, s.waiting.Stats().Cancelled)
}

func TestShutdownAnswersWhoWaits(t *testing.T) {
	s := serving(t)
	c := connected(t, s)
	const clients = 20
	var all []<-chan reply
	for i := range clients {
		all = append(all, get(t, c, fmt.Sprintf("/topics/t%d?timeout=1m", i%3)))
	}
	waits(t, s, clients)
	c.close() // connections that were dialled and not used; a shutdown waits 5 s for those
	require.NoError(t, s.shutdown())
	for _, replies := range all {
		r := <-replies
		assert.Equal(t, http.StatusServiceUnavailable, r.status)
		assert.Equal(t, "1", r.retryAfter)
		assert.Equal(t, "the server is shutting down", r.body.Error)
	}
	_, err := c.publish(t.Context(), "t0", "x")
	assert.Error(t, err, "nobody listens any more")
}

// However many GETs wait, each on a connection of its own: none is hung up on.
func TestShutdownAnswersEverybody(t *testing.T) {
	const waiting = 200
	rounds := 20
	if testing.Short() {
		rounds = 4
	}
	for range rounds {
		s := serving(t)
		answers := httploadtest.Send(t, s.url(), waiting, "GET /topics/news?timeout=1m")
		waits(t, s, waiting)
		shutDown := make(chan error, 1)
		go func() { shutDown <- s.shutdown() }()
		s.waiting.SignalUpTo("news", 0) // tries those that are being ended
		for _, a := range answers() {
			require.Equal(t, http.StatusServiceUnavailable, a.Status)
			require.Equal(t, "1", a.Header.Get("Retry-After"))
		}
		require.NoError(t, <-shutDown)
	}
}

// A request that was accepted just before the end is refused, and not kept waiting.
func TestRequestsDuringShutdown(t *testing.T) {
	s := serving(t)
	c := connected(t, s)
	s.draining.Store(true)
	require.NoError(t, s.waiting.Close())
	r, err := c.publish(t.Context(), "news", "x")
	require.NoError(t, err)
	assert.Equal(t, http.StatusServiceUnavailable, r.status)
	assert.Equal(t, http.StatusServiceUnavailable, (<-get(t, c, "/topics/news?timeout=1m")).status)
	require.NoError(t, s.shutdown())
}

// Somebody ends a topic's waits for a reason that the server does not know.
func TestUnexpectedEnd(t *testing.T) {
	s := serving(t)
	c := connected(t, s)
	waiting := get(t, c, "/topics/news")
	waits(t, s, 1)
	s.waiting.CancelForKey("news", nil)
	r := <-waiting
	assert.Equal(t, http.StatusInternalServerError, r.status)
	assert.Contains(t, r.body.Error, `purgatory "poll": cancelled`)
}

// A client that takes no answer holds its goroutine no longer than the write timeout.
func TestSlowReaderIsCutOff(t *testing.T) {
	cutOff := make(logged, 1)
	s := servingWith(t, slog.New(cutOff), "-write-timeout", "250ms", "-max-message-size", "33554432", "-max-messages", "2")
	_, err := s.topics.append("news", strings.Repeat("x", 32<<20)) // more than the buffers of two sockets hold
	require.NoError(t, err)
	conn := dial(t, s, "GET /topics/news?after=-1 HTTP/1.1\r\nHost: x\r\n\r\n")
	assert.Contains(t, <-cutOff, "answer not taken")
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	assert.Error(t, err, "the rest was not sent")
}

// A client that does not send its message is answered 408.
func TestSlowWriterIsCutOff(t *testing.T) {
	s := serving(t, "-write-timeout", "250ms")
	conn := dial(t, s, "POST /topics/news HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab")
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	defer response.Body.Close()
	assert.Equal(t, http.StatusRequestTimeout, response.StatusCode)
}

// A request under way at a shutdown is cut off in the end.
func TestShutdownDoesNotWaitForSlowClients(t *testing.T) {
	s := serving(t, "-write-timeout", "1h", "-shutdown-timeout", "50ms")
	conn := dial(t, s, "POST /topics/news HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
	response, err := bufio.NewReader(conn).ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, response, "100 Continue", "the server waits for the message")
	assert.ErrorContains(t, s.shutdown(), "requests still under way after 50ms")
}

// The deadline of one answer does not hold for the next on the same connection.
func TestConnectionOutlivesItsDeadlines(t *testing.T) {
	s := serving(t, "-write-timeout", "250ms")
	c := newClient(s.url(), 1)
	c.http.Transport.(*http.Transport).MaxConnsPerHost = 1
	defer c.close()
	publish(t, c, "news", "a")
	for range 2 {
		r := <-get(t, c, "/topics/news?timeout=400ms") // longer than the deadline of the answer before
		assert.Equal(t, http.StatusOK, r.status)
	}
}

func dial(t *testing.T, s *server, request string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", s.listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	_, err = io.WriteString(conn, request)
	require.NoError(t, err)
	return conn
}

// logged is a log that hands over the answers that were not taken.
type logged chan string

func (l logged) Enabled(context.Context, slog.Level) bool { return true }
func (l logged) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l logged) WithGroup(string) slog.Handler            { return l }
func (l logged) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "answer not taken" {
		l <- r.Message
	}
	return nil
}
