package cluster

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/delayedop/purgatory/examples/broker/broker"
)

// TestTwoProcessesOfOneID: the second is refused while the first lives, takes its
// place when it dies, and nothing that was acknowledged is lost either way.
func TestTwoProcessesOfOneID(t *testing.T) {
	c := start(t, testConfig())
	producer := client(t, c)
	create(t, producer, "twins", 6, 3)
	l := startLoad(producer, "twins")
	l.awaitAcked(t, 100)
	config := c.config.Broker
	config.Controller = c.Controller()
	for id := int32(1); id <= 3; id++ {
		sessions := c.controller.Sessions().Accepted
		config.ID, config.Registration = id, 250*time.Millisecond
		_, err := broker.Start(ctx(t), config)
		require.ErrorIs(t, err, kerr.DuplicateBrokerRegistration)
		require.Equal(t, sessions, c.controller.Sessions().Accepted, "the first was not disturbed")
		l.awaitAcked(t, 50)

		config.Registration = patience
		taken := make(chan *broker.Broker, 1)
		go func() {
			b, err := broker.Start(ctx(t), config)
			if err != nil {
				t.Error(err)
			}
			taken <- b
		}()
		l.awaitAcked(t, 50)
		require.NoError(t, c.Kill(id))
		second := <-taken
		require.NotNil(t, second)
		l.awaitAcked(t, 50)
		awaitInSync(t, producer, "twins")
		second.Kill()
		require.NoError(t, c.Wipe(id))
		require.NoError(t, c.Restart(ctx(t), id))
		awaitInSync(t, producer, "twins")
	}
	l.end()
	fresh := client(t, c, fromStart("twins")...)
	for value, times := range consumeUntil(t, fresh, l.allIn) {
		require.Equal(t, 1, times, "an idempotent producer's %s is in the log more than once", value)
	}
	require.Zero(t, c.Stats()["produce"].Expired)
	fresh.Close()
	requireNothingWaits(t, c)
}
