package debugserver

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/delayedop/purgatory/debug"
	"github.com/delayedop/purgatory/internal/watchdog"
	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(watchdog.Over(m)) }

func get(t *testing.T, url string) string {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(url)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode, "%s", body)
	return string(body)
}

func TestThePageShowsWhatWasAdded(t *testing.T) {
	s, err := Serve("127.0.0.1:0")
	require.NoError(t, err)
	defer s.Stop()
	var said bytes.Buffer
	s.Announce(&said)
	assert.Equal(t, "debug page: "+s.URL()+"\n", said.String())

	p, err := purgatory.New[string]("poll", s.Options()...)
	require.NoError(t, err)
	defer p.Close()
	s.Add(p)
	var view debug.View
	require.NoError(t, json.Unmarshal([]byte(get(t, s.URL()+"?format=json")), &view))
	require.Len(t, view.Purgatories, 1)
	assert.Equal(t, "poll", view.Purgatories[0].Name)
	assert.NotNil(t, view.Purgatories[0].Stats.Waited, "the options make waits visible")

	root := s.URL()[:len(s.URL())-len(path)]
	assert.Contains(t, get(t, root), `== "poll"`, "the root leads to the page")
	s.Remove(p)
	assert.NotContains(t, get(t, s.URL()), "poll")
}

func TestAnAddressWithoutAHostIsLoopback(t *testing.T) {
	s, err := Serve(":0")
	require.NoError(t, err)
	defer s.Stop()
	assert.Contains(t, s.URL(), "http://127.0.0.1:")
}

// After Stop nobody listens, and the address is free.
func TestStopFreesTheAddress(t *testing.T) {
	s, err := Serve("127.0.0.1:0")
	require.NoError(t, err)
	addr := s.URL()[len("http://") : len(s.URL())-len(path)]
	get(t, s.URL())
	s.Stop()
	listener, err := net.Listen("tcp", addr)
	require.NoError(t, err)
	listener.Close()
}

func TestWithoutAnAddressThereIsNoPage(t *testing.T) {
	var addr string
	f := flag.NewFlagSet("program", flag.ContinueOnError)
	Flag(f, &addr)
	require.NoError(t, f.Parse(nil))
	s, err := Serve(addr)
	require.NoError(t, err)
	require.Nil(t, s)
	var said bytes.Buffer
	s.Announce(&said)
	s.Add(nil)
	s.Remove(nil)
	s.Stop()
	assert.Empty(t, said.String())
	assert.Empty(t, s.URL())
}

// stuck does not return from its callback until it may.
type stuck struct {
	operation.DelayedOperation
	may chan struct{}
}

func (*stuck) TryComplete() bool { return false }
func (s *stuck) OnComplete()     { <-s.may }
func (*stuck) OnExpiration()     {}

// With a page and without one: standard error names the operation whose callback does not return.
func TestEveryExampleSeesStuckCallbacks(t *testing.T) {
	var log bytes.Buffer
	stderr = &log
	defer func() { stderr = os.Stderr }()
	page := &Server{} // of whose methods only Options is called
	for _, s := range []*Server{nil, page} {
		log.Reset()
		synctest.Test(t, func(t *testing.T) {
			p, err := purgatory.New[string]("polls", s.Options()...)
			require.NoError(t, err)
			op := &stuck{may: make(chan struct{})}
			_, err = p.TryCompleteElseWatch(op, time.Millisecond, "a")
			require.NoError(t, err)
			time.Sleep(3 * time.Second)
			synctest.Wait()
			n := p.Stats()
			assert.GreaterOrEqual(t, n.BlockedFor, 2*time.Second)
			assert.Equal(t, s != nil, n.Waited != nil)
			close(op.may)
			require.NoError(t, p.Shutdown(t.Context()))
		})
		assert.Contains(t, log.String(), "msg="+purgatory.EventStuck+" purgatory=polls operation=*debugserver.stuck key=a")
		assert.NotContains(t, log.String(), purgatory.EventClosed)
	}
}

func TestAnAddressThatIsNoneIsAnError(t *testing.T) {
	for _, addr := range []string{"6060", "127.0.0.1:port", "127.0.0.1:0:0"} {
		_, err := Serve(addr)
		assert.ErrorContains(t, err, "debug page: ")
	}
}
