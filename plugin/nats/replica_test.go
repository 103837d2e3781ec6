package nats_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
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

// startReplicas starts three servers that keep replicas of a bucket, which it opens at each.
func startReplicas(t *testing.T) (c *cluster, buckets []jetstream.KeyValue) {
	t.Helper()
	c = startCluster(t, func(o *server.Options) { o.JetStream = true })
	for i, b := range c.brokers {
		js, err := jetstream.New(b.connect("client"))
		require.NoError(t, err)
		var kv jetstream.KeyValue
		require.NoError(t, insist(t.Context(), func(ctx context.Context) (err error) {
			if i == 0 {
				kv, err = js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: bucket, Replicas: 3})
			} else {
				kv, err = js.KeyValue(ctx, bucket)
			}
			return err
		}))
		buckets = append(buckets, kv)
	}
	return c, buckets
}

// leaders returns at which server the leader of the bucket is, and at which that of the last
// consumer is, which sends the hints; -1: there is none.
func leaders(t *testing.T, nc *nats.Conn) (ofBucket, ofConsumer int) {
	t.Helper()
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	require.NoError(t, insist(t.Context(), func(ctx context.Context) error {
		s, err := js.Stream(ctx, "KV_"+bucket)
		if err != nil {
			return err
		}
		ofBucket, ofConsumer = -1, -1
		_, err = fmt.Sscanf(s.CachedInfo().Cluster.Leader, "server%d", &ofBucket)
		for c := range s.ListConsumers(ctx).Info() {
			_, _ = fmt.Sscanf(c.Cluster.Leader, "server%d", &ofConsumer)
		}
		return err
	}))
	return ofBucket, ofConsumer
}

// A bucket with three replicas: the hint comes before the replica that answers a direct get has
// the entry. One of the replicas is far from the others.
func TestAReplicaThatIsBehindTheHint(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		lag  time.Duration
	}{{"default", 2 * time.Second}, {"without repeats", 0}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cluster, buckets := startReplicas(t)
			leader, _ := leaders(t, cluster.brokers[0].connect("leader"))
			nc := cluster.brokers[leader].connect("source")
			h := startHearing(t, natssignals.KeyValue(nc, bucket), signals.WithLag(c.lag))
			h.awaitStanding(t, true)
			_, consumer := leaders(t, nc)
			far := slices.IndexFunc([]int{0, 1, 2}, func(i int) bool { return i != leader && i != consumer })
			const distance = 20 * time.Millisecond
			cluster.delay(distance, far)
			eventually(t, func() bool { // its replica answers gets; it does not do so at once
				began := time.Now()
				_, err := buckets[far].Get(t.Context(), "none")
				return errors.Is(err, jetstream.ErrKeyNotFound) && time.Since(began) < distance
			})
			time.Sleep(2*c.lag + c.lag/4) // the re-checks that follow the subscription are over
			const together = 50
			lost := 0
			for done := 0; done < rounds(500); done += together {
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				var reading, waiting, writing sync.WaitGroup
				results := make([]error, together)
				for i := range together {
					key := fmt.Sprint("key-", done+i)
					reading.Add(1)
					waiting.Go(func() {
						var once sync.Once
						_, results[i] = signals.AwaitRead(ctx, h.p, time.Hour, func(ctx context.Context) (bool, bool, error) {
							defer once.Do(reading.Done)
							_, err := buckets[i%len(buckets)].Get(ctx, key)
							if errors.Is(err, jetstream.ErrKeyNotFound) {
								return false, false, nil
							}
							return err == nil, err == nil, err
						}, key)
					})
				}
				reading.Wait()
				for i := range together {
					writing.Go(func() {
						_, err := buckets[(i+1)%len(buckets)].Put(t.Context(), fmt.Sprint("key-", done+i), nil)
						assert.NoError(t, err)
					})
				}
				writing.Wait()
				if c.lag == 0 { // who has no answer by then has none to come
					late := time.AfterFunc(500*time.Millisecond, cancel)
					defer late.Stop()
				}
				waiting.Wait()
				cancel()
				for _, err := range results {
					if err != nil {
						lost++
					}
				}
			}
			t.Logf("%d of %d lost; %v", lost, rounds(500), h.Stats())
			if c.lag > 0 {
				assert.Zero(t, lost)
			} else {
				assert.Positive(t, lost, "without the reads that follow a hint")
			}
		})
	}
}
