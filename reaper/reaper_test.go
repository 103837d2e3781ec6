package reaper

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/delayedop/purgatory/internal/watchdog"
	"github.com/delayedop/purgatory/timer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(watchdog.Over(m)) }

// turns is a clock that calls f with the number of each call, from 1 on.
type turns struct {
	n atomic.Int32
	f func(turn int32)
}

func (c *turns) AdvanceClockUntil(<-chan struct{}, time.Duration) bool {
	c.f(c.n.Add(1))
	return false
}

func stopped(t *testing.T, r *ExpirationReaper) {
	t.Helper()
	r.Stop()
	r.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	require.NoError(t, r.Wait(ctx))
}

func TestTheReaperSurvivesPanicsAndGoexits(t *testing.T) {
	for name, misbehave := range map[string]func(){"panic": func() { panic("misbehaves") }, "Goexit": runtime.Goexit} {
		for _, caller := range []string{"clock", "sweep"} {
			t.Run(name+" in the "+caller, func(t *testing.T) {
				const enough = 20
				var told, sweeps atomic.Int32
				reached := make(chan struct{})
				c := &turns{f: func(turn int32) {
					if turn == enough {
						close(reached)
					}
					if caller == "clock" && turn%3 == 0 {
						misbehave()
					}
				}}
				r := Start(c, time.Second, func() {
					if n := sweeps.Add(1); caller == "sweep" && n%3 == 0 {
						misbehave()
					}
				}, func(any, []byte) { told.Add(1) })
				select {
				case <-reached:
				case <-time.After(15 * time.Second):
					t.Fatal("the reaper has ended with its goroutine")
				}
				stopped(t, r)
				must := int32(enough-1) * 2 / 3
				if name == "panic" { // which ends its own call only
					must = c.n.Load()
				}
				assert.GreaterOrEqual(t, sweeps.Load(), must)
				if name == "panic" {
					assert.GreaterOrEqual(t, told.Load(), int32(enough-1)/3)
				} else {
					assert.Zero(t, told.Load())
				}
			})
		}
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	r := Start(&turns{f: func(turn int32) {
		if turn == 1 {
			close(entered)
			<-leave
		}
	}}, time.Second, func() {}, func(any, []byte) {})
	<-entered
	r.Stop() // returns although the clock blocks
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	assert.ErrorIs(t, r.Wait(ctx), gone)
	close(leave)
	stopped(t, r)
}

// Several reapers share a timer: one is the driver, the others wait for their turn. A reaper
// that is stopped does not wait until its interval is over, and another one drives on.
func TestStopDoesNotWaitOutAnInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock, err := timer.NewSystemTimer()
		require.NoError(t, err)
		defer clock.Stop()
		began := time.Now()
		first := Start(clock, time.Hour, func() {}, nil)
		synctest.Wait()
		second := Start(clock, time.Hour, func() {}, nil)
		third := Start(clock, time.Hour, func() {}, nil)
		synctest.Wait()

		stopped(t, second)
		assert.Zero(t, time.Since(began), "it waited for its turn")
		stopped(t, first)
		assert.Zero(t, time.Since(began), "it drove")

		ran := make(chan struct{})
		_, err = clock.AfterFunc(time.Second, func() { close(ran) })
		require.NoError(t, err)
		<-ran
		assert.Equal(t, time.Second, time.Since(began), "the third one drives")
		stopped(t, third)
		assert.Equal(t, time.Second, time.Since(began))
	})
}

func TestWaitAfterTheEndReturnsNilWhateverItsContext(t *testing.T) {
	clock, err := timer.NewManualTimer()
	require.NoError(t, err)
	r := Start(clock, time.Hour, func() {}, nil)
	r.Stop()
	require.NoError(t, r.Wait(t.Context()))
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 { // a select would choose at random
		require.NoError(t, r.Wait(over))
	}
}
