package nats_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	natssignals "github.com/delayedop/purgatory/plugin/nats"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/signals"
)

// reload changes the user of the sources, as an operator does who edits the configuration.
// Nil permissions are all.
func (b *broker) reload(password string, p *server.Permissions) {
	b.t.Helper()
	o := b.options.Clone()
	o.Users = users(password, p)
	b.options = o
	require.NoError(b.t, b.running().ReloadOptions(o.Clone()))
}

func users(password string, p *server.Permissions) []*server.User {
	return []*server.User{{Username: "source", Password: password, Permissions: p}, {Username: "writer", Password: "writer"}}
}

// hearing is a runner, and a purgatory that it signals.
type hearing struct {
	*signals.Runner[string]
	p     *purgatory.Purgatory[string]
	ended chan error // of Run
}

// startHearing runs source. There are no audits and no repeats: what ends a wait is the source.
func startHearing(t *testing.T, source signals.Source[string], options ...signals.Option) hearing {
	t.Helper()
	p, err := purgatory.New[string]("test")
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.Close() })
	options = append([]signals.Option{signals.WithAudit(0), signals.WithLag(0), signals.WithBackoff(time.Millisecond, 100*time.Millisecond)}, options...)
	r, err := signals.To(p, options...)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	h := hearing{r, p, make(chan error, 1)}
	over := make(chan struct{})
	go func() {
		defer close(over)
		h.ended <- r.Run(ctx, source)
	}()
	t.Cleanup(func() { cancel(); <-over })
	return h
}

func (h hearing) awaitStanding(t *testing.T, standing bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); h.Stats().Standing != standing; time.Sleep(time.Millisecond) {
		require.True(t, time.Now().Before(deadline), "Standing is %v, last error: %v", !standing, h.Stats().Err)
	}
}

// await waits for a key whose state read tells; asleep is closed after the first read.
func (h hearing) await(ctx context.Context, key string, read func() bool) (asleep chan struct{}, answered chan error) {
	asleep, answered = make(chan struct{}), make(chan error, 1)
	go func() {
		first := true
		_, err := signals.AwaitRead(ctx, h.p, time.Hour, func(context.Context) (bool, bool, error) {
			ok := read()
			if first {
				first = false
				close(asleep)
			}
			return ok, ok, nil
		}, key)
		answered <- err
	}()
	return asleep, answered
}

// denied are rights without those to subscribe to subjects.
func denied(subjects ...string) *server.Permissions {
	return &server.Permissions{Subscribe: &server.SubjectPermission{Deny: subjects}, Publish: &server.SubjectPermission{Allow: []string{">"}}}
}

// The rights of a live connection are taken away and given back. The source says so, and hears
// what was written meanwhile.
func TestRightsThatAreTakenAwayShowAndComeBack(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		bucket bool
		denied *server.Permissions
		says   string
	}{
		"subjects, subscribe": {false, denied("hints.test.>"), `must be allowed to publish and to subscribe to "hints.test.>"`},
		"subjects, publish": {
			false, &server.Permissions{Publish: &server.SubjectPermission{Deny: []string{"hints.test.>"}}},
			`must be allowed to publish and to subscribe to "hints.test.>"`,
		},
		"a bucket, subscribe": {true, denied("_INBOX.>"), `must be allowed to subscribe to "_INBOX.>"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := startBroker(t, func(o *server.Options) { o.Users = users("p", nil) })
			nc, writer := b.connect("source", nats.UserInfo("source", "p")), b.connect("writer", nats.UserInfo("writer", "writer"))
			js, err := jetstream.New(writer)
			require.NoError(t, err)
			_, err = js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: bucket})
			require.NoError(t, err)
			kv, err := withoutDirectGets(t.Context(), js)
			require.NoError(t, err)
			var source signals.Source[string] = natssignals.KeyValue(nc, bucket)
			if !c.bucket {
				source, err = natssignals.Subjects(nc, "hints.test")
				require.NoError(t, err)
			}
			h := startHearing(t, source)
			h.awaitStanding(t, true)
			b.reload("p", c.denied)
			h.awaitStanding(t, false)
			for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
				if err := h.Stats().Err; err != nil && strings.Contains(err.Error(), c.says) {
					break
				}
				require.True(t, time.Now().Before(deadline), "%v", h.Stats().Err)
			}
			asleep, answered := h.await(t.Context(), "a", func() bool { _, err := kv.Get(t.Context(), "a"); return err == nil })
			receive(t, asleep, "the first read")
			_, err = kv.Put(t.Context(), "a", nil)
			require.NoError(t, err)
			require.NoError(t, natssignals.Hint(writer, "hints.test", "a", 1))
			assert.False(t, h.Stats().Standing)
			b.reload("p", nil)
			require.NoError(t, receive(t, answered, "the answer"))
			h.awaitStanding(t, true)
		})
	}
}

// The server refuses the password for a while. By default the client then closes the connection
// for good: Run ends, and its error says what to set. With that set, it goes on.
func TestAPasswordThatIsRefusedForAWhile(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		bucket, ignore bool
	}{
		"subjects": {}, "a bucket": {bucket: true}, "subjects, ignored": {ignore: true}, "a bucket, ignored": {true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := startBroker(t, func(o *server.Options) { o.Users = users("p", nil) })
			options := []nats.Option{nats.UserInfo("source", "p")}
			if c.ignore {
				options = append(options, nats.IgnoreAuthErrorAbort())
			}
			js, err := jetstream.New(b.connect("writer", nats.UserInfo("writer", "writer")))
			require.NoError(t, err)
			_, err = js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: bucket})
			require.NoError(t, err)
			nc := b.connect("source", options...)
			var source signals.Source[string] = natssignals.KeyValue(nc, bucket)
			if !c.bucket {
				source, err = natssignals.Subjects(nc, "hints.test")
				require.NoError(t, err)
			}
			h := startHearing(t, source)
			h.awaitStanding(t, true)
			b.reload("another", nil)
			h.awaitStanding(t, false)
			if !c.ignore {
				err := receive(t, h.ended, "the end of Run")
				assert.ErrorIs(t, err, signals.ErrFinal)
				assert.ErrorContains(t, err, "nats.IgnoreAuthErrorAbort")
				return
			}
			time.Sleep(100 * time.Millisecond) // many attempts, each a millisecond after the other
			b.reload("p", nil)
			h.awaitStanding(t, true)
		})
	}
}
