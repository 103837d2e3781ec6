package signals_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/signals"
)

func TestBulkReadsAreFewAndComeBeforeTheReCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const waits = 2500
		p := open(t)
		truth, copied := map[string]bool{}, sync.Map{}
		var calls []int
		r, err := signals.To(p, signals.WithResync(func(_ context.Context, keys []string) error {
			calls = append(calls, len(keys))
			if len(calls) == 2 {
				return errBroken // and all is read again
			}
			for _, key := range keys {
				copied.Store(key, truth[key])
			}
			return nil
		}))
		require.NoError(t, err)
		var tries, answered atomic.Int64
		for i := range waits {
			key := fmt.Sprint("key", i)
			truth[key] = true
			go func() {
				err := p.Await(t.Context(), time.Hour, func() bool {
					tries.Add(1)
					v, _ := copied.Load(key)
					return v == true
				}, key)
				assert.NoError(t, err)
				answered.Add(1)
			}()
		}
		synctest.Wait()
		before := tries.Load()
		stop := runIn(t, r, script(stands))
		for answered.Load() < waits {
			time.Sleep(time.Second)
		}
		assert.Equal(t, []int{1000, 1000, 1000, 1000, 500}, calls)
		assert.EqualValues(t, waits, tries.Load()-before, "one re-check")
		s := r.Stats()
		assert.Equal(t, []int64{5, 1, 1}, []int64{s.BulkReads, s.Failures, s.Rechecks})
		stop()
		stop = runIn(t, r, script(stands)) // nobody waits: nothing is read
		synctest.Wait()
		assert.EqualValues(t, 5, r.Stats().BulkReads)
		assert.EqualValues(t, 2, r.Stats().Rechecks)
		stop()
		require.NoError(t, p.Close())
	})
}

func TestAGapDuringABulkReadCausesAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open(t)
		go func() { _ = p.Await(t.Context(), time.Hour, func() bool { return false }, "a") }()
		synctest.Wait()
		reading := make(chan struct{})
		r, err := signals.To(p, signals.WithResync(func(ctx context.Context, _ []string) error {
			select {
			case reading <- struct{}{}:
			case <-ctx.Done():
			}
			return ctx.Err()
		}))
		require.NoError(t, err)
		stop := runIn(t, r, script(stands))
		synctest.Wait()
		for range 5 {
			r.Missed(errBroken)
		}
		<-reading
		<-reading // one for all five
		synctest.Wait()
		assert.EqualValues(t, 2, r.Stats().Rechecks)
		r.Missed(errBroken)
		synctest.Wait()
		stop() // in the middle of a read
		require.NoError(t, p.Close())
	})
}
