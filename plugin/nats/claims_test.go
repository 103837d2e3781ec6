package nats_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/examples/claims/claimstest"
	natssignals "github.com/delayedop/purgatory/plugin/nats"
	"github.com/delayedop/purgatory/signals"
)

// A job is a message of a work queue. The server gives it back if it is not acknowledged in time.
func TestOneOfManyAcrossProcesses(t *testing.T) {
	t.Parallel()
	b := startBroker(t)
	nc := b.connect("claims")
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "jobs", Subjects: []string{"jobs"}, Retention: jetstream.WorkQueuePolicy, Storage: jetstream.MemoryStorage,
	})
	require.NoError(t, err)
	queue, err := stream.CreateConsumer(t.Context(), jetstream.ConsumerConfig{
		Durable: "workers", AckPolicy: jetstream.AckExplicitPolicy, AckWait: 5 * time.Second,
	})
	require.NoError(t, err)
	fetch := func() (jetstream.Msg, error) {
		batch, err := queue.FetchNoWait(1)
		if err != nil {
			return nil, err
		}
		return <-batch.Messages(), batch.Error() // nil: there is none
	}
	add := func(job int) error {
		_, err := js.Publish(t.Context(), "jobs", []byte(strconv.Itoa(job)))
		return err
	}
	hint := func() error { return natssignals.Hint(nc, "hints", "jobs", signals.Unknown) }
	claimstest.OneOfMany(t, claimstest.Engine{
		Key: "jobs",
		Look: func(ctx context.Context, _ string) (job int, found bool, err error) {
			m, err := fetch()
			if m == nil || err != nil {
				return 0, false, err
			}
			if err := m.DoubleAck(ctx); err != nil { // committed: nobody else gets it
				return 0, false, err
			}
			job, err = strconv.Atoi(string(m.Data()))
			return job, err == nil, err
		},
		Source: func() (signals.Source[string], error) { return natssignals.Subjects(b.connect("replica"), "hints") },
		Put: func(job int) error {
			if err := add(job); err != nil {
				return err
			}
			return hint()
		},
		Add:  add,
		Hint: hint,
		Hold: func() (die func() error, ok bool, err error) {
			m, err := fetch()
			return func() error { return nil }, m != nil, err
		},
	})
}
