package reaper

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// clock does something of its own at each turn.
type clock func(turn int32)

type turns struct {
	n atomic.Int32
	f clock
}

func (c *turns) AdvanceClock(time.Duration) bool {
	c.f(c.n.Add(1))
	return false
}

func stopped(t *testing.T, r *ExpirationReaper) {
	t.Helper()
	r.Stop()
	r.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	require.NoError(t, r.Wait(ctx))
}

func TestTheReaperOutlivesWhateverItCalls(t *testing.T) {
	for name, misdeed := range map[string]func(){"panic": func() { panic("of the clock's") }, "Goexit": runtime.Goexit} {
		for _, where := range []string{"clock", "sweep"} {
			t.Run(name+" in the "+where, func(t *testing.T) {
				const enough = 20
				var told, sweeps atomic.Int32
				reached := make(chan struct{})
				c := &turns{f: func(turn int32) {
					if turn == enough {
						close(reached)
					}
					if where == "clock" && turn%3 == 0 {
						misdeed()
					}
				}}
				r := Start(c, time.Second, func() {
					if n := sweeps.Add(1); where == "sweep" && n%3 == 0 {
						misdeed()
					}
				}, func(any, []byte) { told.Add(1) })
				<-reached
				stopped(t, r)
				assert.GreaterOrEqual(t, sweeps.Load(), int32(enough-1)*2/3)
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
	r.Stop() // does not wait
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	assert.ErrorIs(t, r.Wait(ctx), gone)
	close(leave)
	stopped(t, r)
}
