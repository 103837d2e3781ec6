package cond

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"github.com/delayedop/purgatory/internal/watchdog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(watchdog.Over(m)) }

// wait lets a goroutine wait, and returns when it does. The result of Wait comes through the channel.
func wait(ctx context.Context, c *Cond) <-chan error {
	result := make(chan error, 1)
	go func() {
		c.L.Lock()
		defer c.L.Unlock()
		result <- c.Wait(ctx)
	}()
	synctest.Wait()
	return result
}

func locked(c *Cond, f func()) {
	c.L.Lock()
	defer c.L.Unlock()
	f()
}

// lock is a mutex whose deadlocks a bubble notices: a goroutine that waits for a channel counts as blocked there.
type lock chan struct{}

func (l lock) Lock()   { l <- struct{}{} }
func (l lock) Unlock() { <-l }

// opentelemetry-collector 15700: contexts end while another goroutine signals under the lock. There a Signal waited
// for a goroutine that waited for the lock.
func TestContextsThatEndWhileSignalsComeDeadlockNobody(t *testing.T) {
	for seed := range uint64(500) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			c := New(make(lock, 1))
			var waits errgroup.Group
			for range 1 + random.IntN(8) {
				timeout := time.Duration(random.IntN(3)) * time.Second
				waits.Go(func() error {
					ctx, cancel := context.WithTimeout(t.Context(), timeout)
					defer cancel()
					locked(c, func() { _ = c.Wait(ctx) })
					return nil
				})
			}
			for range 4 { // at the very moments at which contexts end
				locked(c, func() {
					if random.IntN(4) == 0 {
						c.Broadcast()
					}
					c.Signal()
				})
				time.Sleep(time.Second)
			}
			require.NoError(t, waits.Wait())
			assert.Zero(t, c.waiting.Stats().Waiting)
			assert.Zero(t, c.waiting.Stats().Items, "a wake-up is kept")
		})
	}
}

func TestSignalWakesTheOneThatHasWaitedLongest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(new(sync.Mutex))
		c.Signal() // nobody waits: it is forgotten
		var line []<-chan error
		for range 4 {
			line = append(line, wait(t.Context(), c))
		}
		for i, next := range line {
			for _, later := range line[i:] {
				assert.Empty(t, later)
			}
			locked(c, c.Signal)
			synctest.Wait()
			require.Len(t, next, 1)
			assert.NoError(t, <-next)
		}
	})
}

func TestBroadcastWakesAllThatWaitAndNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(new(sync.Mutex))
		c.Broadcast()
		var all []<-chan error
		for range 300 {
			all = append(all, wait(t.Context(), c))
		}
		locked(c, c.Broadcast)
		synctest.Wait()
		for _, one := range all {
			require.Len(t, one, 1)
			require.NoError(t, <-one)
		}
		ctx, leave := context.WithCancel(t.Context())
		late := wait(ctx, c)
		assert.Empty(t, late)
		leave()
		assert.ErrorIs(t, <-late, context.Canceled)
	})
}

// A Signal goes to the one that waits, and not to one that comes at the same moment.
func TestANewcomerTakesNoWakeUpFromOneThatWaits(t *testing.T) {
	for range 1000 {
		synctest.Test(t, func(t *testing.T) {
			c := New(new(sync.Mutex))
			first := wait(t.Context(), c)
			go c.Signal()
			second := wait(t.Context(), c)
			require.Len(t, first, 1)
			c.Broadcast()
			require.NoError(t, <-first)
			require.NoError(t, <-second)
		})
	}
}

// A Signal that comes while the only one that waits is leaving wakes nobody, and is forgotten.
func TestNoWakeUpIsKeptForLater(t *testing.T) {
	c := New(new(sync.Mutex))
	ended, leave := context.WithCancel(t.Context())
	leave()
	for range 20_000 {
		var both sync.WaitGroup
		both.Go(func() { locked(c, func() { _ = c.Wait(ended) }) })
		both.Go(c.Signal)
		both.Wait()
		require.Zero(t, c.waiting.Stats().Items)
		require.Zero(t, c.waiting.Stats().Waiting)
	}
}

var errGone = errors.New("gone")

// One that leaves takes no wake-up: it goes to the next, or the one that leaves returns nil.
func TestALeaverTakesNoWakeUp(t *testing.T) {
	for range 200 {
		synctest.Test(t, func(t *testing.T) {
			c := New(new(sync.Mutex))
			ctx, leave := context.WithCancelCause(t.Context())
			leaver, next := wait(ctx, c), wait(t.Context(), c)
			leave(errGone)
			locked(c, c.Signal) // before or after the goroutine has noticed
			synctest.Wait()
			if err := <-leaver; err == nil {
				assert.Empty(t, next)
				c.Signal()
			} else {
				assert.ErrorIs(t, err, errGone)
			}
			synctest.Wait()
			require.Len(t, next, 1)
			assert.NoError(t, <-next)
			assert.Zero(t, c.waiting.Stats().Waiting)
		})
	}
}

// Waiters whose contexts end stand before one that has time. Each item of a queue is signalled once, and taken all
// the same: those that leave take no wake-up with them, and do not look at the queue before they wait.
func TestNoItemIsLeftBesideAWaiter(t *testing.T) {
	items := 3000
	if testing.Short() {
		items = 300
	}
	c := New(new(sync.Mutex))
	queued, taken, over := 0, 0, false // guarded by c.L
	take := func() {
		if queued > 0 {
			queued, taken = queued-1, taken+1
		}
	}
	var consumers errgroup.Group
	for range 6 {
		consumers.Go(func() error {
			for ended := false; !ended; {
				ctx, leave := context.WithTimeout(t.Context(), rand.N(100*time.Microsecond))
				locked(c, func() {
					if c.Wait(ctx) == nil {
						take()
					}
					ended = over
				})
				leave()
			}
			return nil
		})
	}
	consumers.Go(func() (err error) {
		patient, leave := context.WithTimeout(t.Context(), 5*time.Minute)
		defer leave()
		locked(c, func() {
			for !over && err == nil {
				if take(); queued == 0 && !over {
					err = c.Wait(patient)
				}
			}
			over = true
		})
		return err
	})
	for i := range items {
		locked(c, func() { queued++; c.Signal() })
		for ended := false; !ended; runtime.Gosched() {
			locked(c, func() { ended = over || taken == i+1 })
		}
	}
	locked(c, func() { over = true; c.Broadcast() })
	require.NoError(t, consumers.Wait(), "%d of %d items were taken", taken, items)
	assert.Equal(t, items, taken)
}
