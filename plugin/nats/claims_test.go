package nats_test

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/examples/claims"
	natssignals "github.com/delayedop/purgatory/plugin/nats"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/signals"
)

// Three replicas wait for the messages of a work queue. Each goes to one worker, and costs at most
// two looks for each replica. If a process dies between its hint and its acknowledgement, the server
// gives the message back, and an audit of another process finds it.
func TestOneOfManyAcrossProcesses(t *testing.T) {
	const replicas, workers, jobs = 3, 10, 30
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
	var looks atomic.Int64
	look := func(ctx context.Context, _ string) (job int, found bool, err error) {
		looks.Add(1)
		m, err := fetch()
		if m == nil || err != nil {
			return 0, false, err
		}
		if err := m.DoubleAck(ctx); err != nil { // committed: nobody else gets it
			return 0, false, err
		}
		job, err = strconv.Atoi(string(m.Data()))
		return job, err == nil, err
	}

	ctx, stop := context.WithCancel(t.Context())
	got := make(chan int, replicas*workers)
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	for range replicas {
		p, err := purgatory.New[string]("claims", purgatory.WithFirstInFirstOut())
		require.NoError(t, err)
		c := claims.New(p, look)
		hints, err := signals.To[string](c, signals.WithLag(0), signals.WithAudit(time.Second))
		require.NoError(t, err)
		source, err := natssignals.Subjects(b.connect("replica"), "hints")
		require.NoError(t, err)
		running.Go(func() {
			_ = hints.Run(ctx, source)
			_ = p.Shutdown(context.Background())
		})
		for range workers {
			running.Go(func() {
				for ctx.Err() == nil {
					if job, err := c.Claim(ctx, time.Hour, "jobs"); err == nil {
						got <- job
					}
				}
			})
		}
		require.Eventually(t, func() bool { return hints.Stats().Standing && p.NumDelayed() == workers }, time.Minute, time.Millisecond)
	}

	publish := func(job int) {
		_, err := js.Publish(t.Context(), "jobs", []byte(strconv.Itoa(job)))
		require.NoError(t, err)
	}
	began, before := time.Now(), looks.Load()
	for job := range jobs {
		publish(job)
		require.NoError(t, natssignals.Hint(nc, "hints", "jobs", signals.Unknown))
		require.Equal(t, job, <-got)
	}
	audits := replicas * (int64(time.Since(began)/time.Second) + 2) // on a slow machine some come meanwhile
	took := looks.Load() - before
	t.Logf("%d jobs, %d looks", jobs, took)
	assert.LessOrEqual(t, took, 2*replicas*jobs+audits)

	// A process takes a message before the hint comes, and dies. The others have looked in vain.
	lost := jobs
	for ; ; lost++ {
		for last := int64(-1); last != looks.Load(); time.Sleep(20 * time.Millisecond) {
			last = looks.Load() // until nobody looks any more
		}
		publish(lost)
		m, err := fetch()
		require.NoError(t, err)
		if m != nil {
			break
		}
		require.Equal(t, lost, <-got, "an audit came first")
	}
	require.NoError(t, natssignals.Hint(nc, "hints", "jobs", signals.Unknown))
	assert.Equal(t, lost, <-got)
}
