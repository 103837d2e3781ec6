package nats_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	natssignals "github.com/delayedop/purgatory/plugin/nats"
	"github.com/delayedop/purgatory/signals"
)

// The server refuses the subscription of a source, and the client goes on. The source does not stand, its
// error says what the server has said, and blames no right if that is not what is missing.
func TestEachRefusalKeepsItsText(t *testing.T) {
	t.Parallel()
	const blames = "must be allowed to"
	for name, c := range map[string]struct {
		options       func(*server.Options)
		subscriptions int // others of the connection
		says          string
		rights        bool
	}{
		"the maximum of subscriptions": {func(o *server.Options) { o.MaxSubs = 5 }, 5, nats.ErrMaxSubscriptionsExceeded.Error(), false},
		"all but one of them":          {func(o *server.Options) { o.MaxSubs = 6 }, 5, nats.ErrMaxSubscriptionsExceeded.Error(), false},
		"a right": {func(o *server.Options) {
			o.Users = users("p", denied("hints.test.>", "_INBOX.>"))
		}, 0, "Permissions Violation", true},
	} {
		for kind, bucketed := range map[string]bool{"subjects": false, "a bucket": true} {
			t.Run(name+", "+kind, func(t *testing.T) {
				t.Parallel()
				b := startBroker(t, func(o *server.Options) { o.Users = users("p", nil) }, c.options)
				js, err := jetstream.New(b.connect("writer", nats.UserInfo("writer", "writer")))
				require.NoError(t, err)
				_, err = js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: bucket})
				require.NoError(t, err)
				nc := b.connect("source", nats.UserInfo("source", "p"))
				for range c.subscriptions {
					_, err := nc.SubscribeSync("others.>")
					require.NoError(t, err)
				}
				require.NoError(t, nc.Flush())
				var source signals.Source[string] = natssignals.KeyValue(nc, bucket)
				if !bucketed {
					if name == "all but one of them" {
						return // one is enough
					}
					source, err = natssignals.Subjects(nc, "hints.test")
					require.NoError(t, err)
				}
				for range 2 { // the second time, the client has that error already
					h := newHeard()
					ended := run(t.Context(), source, h)
					assert.ErrorContains(t, ended, c.says)
					assert.NotErrorIs(t, ended, signals.ErrFinal)
					assert.Empty(t, h.gaps, "it has stood")
					if c.rights {
						assert.ErrorContains(t, ended, blames)
					} else {
						assert.NotContains(t, ended.Error(), blames)
					}
				}
			})
		}
	}
}

// A client that does not hear what it publishes cannot hear the heartbeats of its own source. A bucket's
// come from the server (nats.go 424).
func TestAConnectionWithoutEcho(t *testing.T) {
	t.Parallel()
	b := startBroker(t)
	e := b.bucketEngine()
	nc := b.connect("source", nats.NoEcho())
	subjects, err := natssignals.Subjects(nc, "hints.test")
	require.NoError(t, err)
	err = run(t.Context(), subjects, newHeard())
	require.ErrorIs(t, err, signals.ErrFinal)
	assert.ErrorContains(t, err, "nats.NoEcho")
	h := newHeard()
	stop := runIn(t, natssignals.KeyValue(nc, bucket), h)
	_ = receive(t, h.gaps, "that the source of a bucket stands")
	require.NoError(t, e.Write(t.Context(), "a", 1))
	assert.Equal(t, change{"a", 1}, receive(t, h.changes, "a"))
	_ = stop()
}

// The right to inboxes is taken away, and given back after a while. The source hears soon after that.
func TestASourceHearsSoonAfterItsRightsAreBack(t *testing.T) {
	t.Parallel()
	b := startBroker(t, func(o *server.Options) { o.Users = users("p", nil) })
	e := b.bucketEngine()
	nc := b.connect("source", nats.UserInfo("source", "p"))
	h := startHearing(t, natssignals.KeyValue(nc, bucket))
	h.awaitStanding(t, true)
	b.reload("p", denied("_INBOX.>"))
	h.awaitStanding(t, false)
	time.Sleep(9 * time.Second)
	began := time.Now()
	b.reload("p", nil)
	h.awaitStanding(t, true)
	t.Logf("it stands %v after the rights are back", time.Since(began))
	require.NoError(t, e.Write(t.Context(), "a", 1))
	eventually(t, func() bool { return h.Stats().Hints > 0 })
}
