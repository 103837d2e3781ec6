package nats_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	natssignals "github.com/delayedop/purgatory/plugin/nats"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/signals"
)

// While the server is away, the statistics must say so: that is what an alert looks at.
func TestASourceDoesNotStandWhileItsConnectionIsBroken(t *testing.T) {
	b := startBroker(t)
	b.bucketEngine()
	nc := b.connect("sources")
	subjects, err := natssignals.Subjects(nc, "hints")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	var runners []*signals.Runner[string]
	for _, source := range []signals.Source[string]{natssignals.KeyValue(nc, bucket), subjects} {
		p, err := purgatory.New[string]("test")
		require.NoError(t, err)
		defer p.Close()
		r, err := signals.To(p)
		require.NoError(t, err)
		running.Go(func() { _ = r.Run(ctx, source) })
		runners = append(runners, r)
	}
	stand := func(want bool) {
		t.Helper()
		for i, r := range runners {
			require.Eventually(t, func() bool { return r.Stats().Standing == want }, time.Minute, time.Millisecond, "runner %d: %v", i, want)
		}
	}
	stand(true)
	b.stop()
	stand(false)
	for _, r := range runners {
		assert.ErrorIs(t, r.Stats().Err, nats.ErrDisconnected)
	}
	b.start()
	stand(true)
}

// Anybody who may write to the bucket may give a message the header of a heartbeat.
func TestAnEntryThatLooksLikeAHeartbeatIsAHint(t *testing.T) {
	b := startBroker(t)
	e := b.bucketEngine()
	h := newHeard()
	stop := runIn(t, e.Source(), h)
	_ = receive(t, h.gaps, "the first Missed")
	m := nats.NewMsg("$KV." + bucket + ".a")
	m.Header.Set("Status", "100")
	require.NoError(t, b.connect("stranger").PublishMsg(m))
	assert.Equal(t, change{"a", 1}, receive(t, h.changes, "the entry with a status"))
	require.NoError(t, e.Write(t.Context(), "b", 1))
	assert.Equal(t, change{"b", 2}, receive(t, h.changes, "the one after it"))
	assert.Empty(t, h.gaps, "nothing was missing")
	_ = stop()
}
