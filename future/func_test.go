package future

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The function of GatherFunc may use the future: the future has ended, and its lock is
// not held.
func TestTheFunctionMayUseItsEndedFuture(t *testing.T) {
	p := newManual(t)
	called := make(chan struct{})
	var f *Future[int]
	f, err := GatherFunc(p, time.Hour, All(1), func(results []Result[int], _ error) {
		defer close(called)
		used := make(chan struct{})
		go func() {
			defer close(used)
			<-f.Done()
			again, err := f.Wait(t.Context())
			assert.NoError(t, err)
			assert.Equal(t, results, again)
		}()
		select {
		case <-used:
		case <-time.After(15 * time.Second): // not in a bubble, where time stands while somebody waits for a lock
			assert.Fail(t, "the future's lock is held, or its end not told")
		}
	}, "f")
	require.NoError(t, err)
	done := f.Done()
	f.Deliver(0, 1, nil)
	<-called
	<-done
}
