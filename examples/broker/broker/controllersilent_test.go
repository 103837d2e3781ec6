package broker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/delayedop/purgatory/examples/internal/faultproxy"
)

// newSilentBench is a bench whose controller has answered the registration and answers
// nothing after it, until way lets it through.
func newSilentBench(t *testing.T, change func(*Config)) (b *bench, way *faultproxy.Proxy) {
	b = newBench(t, 2, func(c *Config) {
		var err error
		way, err = faultproxy.Start(c.Controller)
		require.NoError(t, err)
		t.Cleanup(way.Close)
		c.Controller = way.Addr()
		change(c)
	})
	way.Hold(true, true)
	return b, way
}

// requireStops stops the broker, which must not wait for its controller.
func requireStops(t *testing.T, b *bench, way *faultproxy.Proxy) {
	t.Helper()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		b.Stop()
	}()
	select {
	case <-stopped:
	case <-time.After(patience):
		way.Hold(false, false)
		t.Fatal("the broker does not stop")
	}
}

// TestASilentControllerHoldsNobodyUp: neither clients whose requests need it, nor the broker's end.
func TestASilentControllerHoldsNobodyUp(t *testing.T) {
	b, way := newSilentBench(t, func(c *Config) { c.ControllerTimeout = 200 * time.Millisecond })
	create := kmsg.NewPtrCreateTopicsRequest()
	create.Version, create.TimeoutMillis = 5, 100
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = "new", 1, 1
	create.Topics = append(create.Topics, rt)
	creating := b.start(b.dial(), create)
	id := kmsg.NewPtrInitProducerIDRequest()
	id.Version = 4
	asking := b.start(b.dial(), id)
	require.Equal(t, kerr.NotController.Code, (<-creating).(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode)
	require.Equal(t, kerr.CoordinatorNotAvailable.Code, (<-asking).(*kmsg.InitProducerIDResponse).ErrorCode)
	requireStops(t, b, way)
}

// TestStoppingDoesNotWaitForAHeartbeat that the controller does not answer.
func TestStoppingDoesNotWaitForAHeartbeat(t *testing.T) {
	b, way := newSilentBench(t, func(c *Config) { c.ControllerTimeout, c.HeartbeatInterval = time.Hour, time.Millisecond })
	time.Sleep(50 * time.Millisecond) // a heartbeat is under way, most likely
	requireStops(t, b, way)
}
