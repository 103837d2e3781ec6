package nats_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	natssignals "github.com/delayedop/purgatory/plugin/nats"
	"github.com/delayedop/purgatory/signals"
)

// startLeaf starts a hub and a leaf node, each with a JetStream domain of its own, and a bucket at the
// hub with a mirror of another name at the leaf.
func startLeaf(t *testing.T) (hub, leaf *broker, origin jetstream.KeyValue) {
	t.Helper()
	port := freePort(t)
	hub = startBroker(t, func(o *server.Options) {
		o.JetStreamDomain = "hub"
		o.LeafNode = server.LeafNodeOpts{Host: "127.0.0.1", Port: port}
	})
	leaf = startBroker(t, func(o *server.Options) {
		o.JetStreamDomain = "leaf"
		o.LeafNode = server.LeafNodeOpts{ReconnectInterval: 1, Remotes: []*server.RemoteLeafOpts{
			{URLs: []*url.URL{{Scheme: "nats", Host: fmt.Sprint("127.0.0.1:", port)}}},
		}}
	})
	js, err := jetstream.New(hub.connect("writer"))
	require.NoError(t, err)
	origin, err = js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "origin"})
	require.NoError(t, err)
	js, err = jetstream.New(leaf.connect("mirror"))
	require.NoError(t, err)
	require.NoError(t, insist(t.Context(), func(ctx context.Context) error {
		_, err := js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: "copy", Mirror: &jetstream.StreamSource{Name: "origin", Domain: "hub"}})
		return err
	}))
	return hub, leaf, origin
}

// The entries of a mirror have the name of its origin in their subjects (nats.go 1116).
func TestAMirrorOfABucketIsHeard(t *testing.T) {
	t.Parallel()
	hub, leaf, origin := startLeaf(t)
	far, err := jetstream.NewWithDomain(hub.connect("far"), "leaf")
	require.NoError(t, err)
	for name, source := range map[string]signals.Source[string]{
		"at the leaf":            natssignals.KeyValue(leaf.connect("source"), "copy"),
		"from the other domain":  natssignals.KeyValueOf(far, "copy"),
		"its origin, at the hub": natssignals.KeyValue(hub.connect("source"), "origin"),
	} {
		t.Run(name, func(t *testing.T) {
			h := startHearing(t, source)
			h.awaitStanding(t, true)
			for i := range 20 {
				key, written := "a key of "+name+" "+strconv.Itoa(i), new(atomic.Bool)
				token, err := natssignals.Encode(key)
				require.NoError(t, err)
				asleep, answered := h.await(t.Context(), key, written.Load)
				receive(t, asleep, "the first read")
				written.Store(true)
				_, err = origin.Put(t.Context(), token, nil)
				require.NoError(t, err)
				require.NoError(t, receive(t, answered, "the answer to a key that was written at the hub"))
			}
			assert.Zero(t, h.Stats().Gaps)
		})
	}
	err = run(t.Context(), natssignals.KeyValue(hub.connect("wrong domain"), "copy"), newHeard())
	require.ErrorIs(t, err, jetstream.ErrStreamNotFound)
}

// A server says nothing of a key that expires, unless the bucket has limit markers.
func TestABucketWithATTLNeedsLimitMarkers(t *testing.T) {
	t.Parallel()
	b := startBroker(t)
	js, err := jetstream.New(b.connect("writer"))
	require.NoError(t, err)
	for name, c := range map[string]struct {
		config jetstream.KeyValueConfig
		blind  bool
	}{
		"no TTL":     {jetstream.KeyValueConfig{Bucket: "keeps"}, false},
		"no markers": {jetstream.KeyValueConfig{Bucket: "silent", TTL: time.Second}, true},
		"markers":    {jetstream.KeyValueConfig{Bucket: "marks", TTL: time.Second, LimitMarkerTTL: time.Minute}, false},
	} {
		t.Run(name, func(t *testing.T) {
			kv, err := js.CreateKeyValue(t.Context(), c.config)
			require.NoError(t, err)
			var log noted
			h := startHearing(t, natssignals.KeyValue(b.connect("source"), c.config.Bucket), signals.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
			eventually(t, func() bool { return h.Stats().Rechecks > 0 }) // it has logged that it stands
			assert.Equal(t, c.blind, h.Stats().Blind != "", h.Stats().Blind)
			if c.blind {
				eventually(t, func() bool { return log.has(signals.EventBlind) })
			}
			assert.Equal(t, c.blind, log.has(signals.EventBlind))
			if c.config.TTL == 0 {
				return
			}
			_, err = kv.Put(t.Context(), "key", nil)
			require.NoError(t, err)
			eventually(t, func() bool { return h.Stats().Hints > 0 })
			before := h.Stats().Hints
			eventually(t, func() bool { _, err := kv.Get(t.Context(), "key"); return errors.Is(err, jetstream.ErrKeyNotFound) })
			time.Sleep(100 * time.Millisecond) // until a hint would have come
			assert.Equal(t, c.blind, h.Stats().Hints == before)
		})
	}
}

// noted is a log that may be read while others write to it.
type noted struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (n *noted) Write(b []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.Write(b)
}

func (n *noted) has(event string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return strings.Contains(n.text.String(), event)
}

// The leaf is cut off from the hub. The source, and its connection to the leaf, notice nothing but that the mirror
// hears nothing from its origin.
func TestAMirrorThatIsCutOffDoesNotStand(t *testing.T) {
	t.Parallel()
	hub, leaf, origin := startLeaf(t)
	h := startHearing(t, natssignals.KeyValue(leaf.connect("source"), "copy"))
	h.awaitStanding(t, true)
	asleep, answered := h.await(t.Context(), "a", func() bool { _, err := origin.Get(t.Context(), "a"); return err == nil })
	receive(t, asleep, "the first read")
	hub.stop()
	h.awaitStanding(t, false)
	eventually(t, func() bool {
		err := h.Stats().Err
		return err != nil && strings.Contains(err.Error(), `it is a mirror of "KV_origin", from which it has heard nothing`)
	})
	hub.start()
	require.NoError(t, insist(t.Context(), func(ctx context.Context) error { _, err := origin.Put(ctx, "a", nil); return err }))
	require.NoError(t, receive(t, answered, "the answer, when the mirror hears its origin again"))
	h.awaitStanding(t, true)
}
