package signals_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/signals"
)

func even(key string) bool { return key[len(key)-1]%2 == 0 }
func odd(key string) bool  { return !even(key) }

// A gap of one shard reads and signals its keys only; a hint reaches the waits of both.
func TestAGapOfAShardReChecksItsKeysOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open(t)
		var mu sync.Mutex // the shards read at once
		var read []string
		resync := signals.WithResync(func(_ context.Context, keys []string) error {
			mu.Lock()
			defer mu.Unlock()
			read = append(read, keys...)
			return nil
		})
		shards := make([]*signals.Runner[string], 2)
		for i, in := range []func(string) bool{even, odd} {
			r, err := signals.To(signals.Part(p, in), signals.WithLag(0), signals.WithAudit(0), resync)
			require.NoError(t, err)
			shards[i] = r
		}
		var trying sync.Mutex
		tries := map[string]int{}
		for _, key := range []string{"key0", "key1", "key2", "key3"} {
			go func() {
				_ = p.Await(t.Context(), time.Hour, func() bool { trying.Lock(); defer trying.Unlock(); tries[key]++; return false }, key)
			}()
			synctest.Wait()
		}
		step := make(chan func(signals.Sink[string]) error)
		next := func(sink signals.Sink[string]) error { return (<-step)(sink) }
		stop := []func(){runIn(t, shards[0], script(stands)), runIn(t, shards[1], script(stands, next))}
		synctest.Wait()
		mu.Lock()
		read = nil
		mu.Unlock()
		before := map[string]int{"key0": tries["key0"], "key1": tries["key1"], "key2": tries["key2"], "key3": tries["key3"]}
		step <- stands
		synctest.Wait()
		mu.Lock()
		assert.Equal(t, []string{"key1", "key3"}, slices.Sorted(slices.Values(read)))
		mu.Unlock()
		for key, n := range before {
			if odd(key) {
				n++
			}
			assert.Equal(t, n, tries[key], key)
		}
		for range signals.Part(p, odd).Keys() {
			break
		}
		for _, s := range stop {
			s()
		}
		require.NoError(t, p.Close())
	})
}
