package future

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/timer"
)

var errGone = errors.New("gone")

// Deliveries race everything else that may end a future. In every order of events the
// future ends once, for one reason that fits its results, and its results are the
// deliveries that were taken.
func TestDeliveriesThatRaceTheEndEndItOnce(t *testing.T) {
	const (
		rounds  = 400
		sources = 5
		want    = 3
	)
	for _, test := range []struct {
		name string
		end  func(*futures, *Future[int])
		why  error
	}{
		{"timeout", func(p *futures, _ *Future[int]) { p.AdvanceClock(time.Second) }, purgatory.ErrExpired},
		{"close", func(p *futures, _ *Future[int]) { p.Close() }, purgatory.ErrClosed},
		{"cancel", func(_ *futures, f *Future[int]) { f.Cancel(errGone) }, errGone},
		{"cancel for key", func(p *futures, _ *Future[int]) { p.CancelForKey("client", errGone) }, errGone},
		{"context", func(_ *futures, f *Future[int]) {
			ctx, leave := context.WithCancelCause(context.Background())
			leave(errGone)
			_, _ = f.Wait(ctx)
		}, errGone},
	} {
		t.Run(test.name, func(t *testing.T) {
			met := 0
			for round := range rounds {
				p := newSmall(t)
				failing := round % sources // number of sources that fail; from 3 on the condition is unreachable
				end := race(t, p, sources, want, failing, test.end)
				switch succeeded := len(end.results) - failures(end.results); {
				case end.err == nil:
					met++
					require.Equal(t, want, succeeded)
				case errors.Is(end.err, ErrUnreachable):
					require.Greater(t, failing, sources-want)
					require.Equal(t, sources-want+1, failures(end.results))
				default:
					require.ErrorIs(t, end.err, test.why)
					require.Less(t, succeeded, want)
					require.LessOrEqual(t, failures(end.results), sources-want)
				}
				require.NoError(t, p.Shutdown(t.Context()))
			}
			t.Logf("%d of %d were met", met, rounds)
		})
	}
}

// blocking is an operation whose next try blocks, once armed.
type blocking struct {
	operation.DelayedOperation
	armed bool
	leave chan struct{}
}

func (b *blocking) TryComplete() bool {
	if b.armed {
		<-b.leave
	}
	return false
}
func (*blocking) OnComplete()   {}
func (*blocking) OnExpiration() {}

// Another goroutine is ending the future when the context of Wait ends: it has tried the
// future, and is trying another operation that waits for the same key. Wait waits for it.
func TestWaitWaitsForTheGoroutineThatEndsTheFuture(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newSmall(t)
		f, err := Gather[int](p, time.Second, All(1), "f")
		require.NoError(t, err)
		other := &blocking{leave: make(chan struct{})}
		_, err = p.TryCompleteElseWatch(other, time.Second, "f")
		require.NoError(t, err)
		other.armed = true
		go f.Deliver(0, 10, nil)
		synctest.Wait()

		ctx, leave := context.WithCancelCause(t.Context())
		leave(errGone)
		var returned atomic.Bool
		go func() {
			results, err := f.Wait(ctx)
			returned.Store(true)
			assert.NoError(t, err, "the results had arrived")
			assert.Equal(t, []Result[int]{{0, 10, nil}}, results)
		}()
		synctest.Wait()
		assert.False(t, returned.Load(), "the future has not ended")
		close(other.leave)
		synctest.Wait()
		assert.True(t, returned.Load())
	})
}

// race runs one future whose sources all deliver while end is called, and returns how it ended.
func race(t *testing.T, p *futures, sources, want, failing int, end func(*futures, *Future[int])) ending {
	t.Helper()
	var got ending
	ended := make(chan struct{})
	var calls atomic.Int32
	f, err := GatherFunc(p, time.Second, Quorum(want, sources), func(results []Result[int], err error) {
		if calls.Add(1) == 1 {
			got.record(results, err)
			close(ended)
		}
	}, "f", "client")
	require.NoError(t, err)

	var taken atomic.Int32
	var running sync.WaitGroup
	for from := range sources {
		deliver := f.Deliver
		if from%2 == 1 {
			deliver = f.Post
		}
		running.Go(func() {
			var err error
			if from < failing {
				err = errDown
			}
			for range 2 { // the second delivery is a duplicate, or too late
				if deliver(from, from, err) {
					taken.Add(1)
				}
			}
		})
	}
	running.Go(func() { end(p, f) })
	running.Go(func() {
		results, err := f.Wait(context.Background())
		<-ended
		assert.Equal(t, got.results, results)
		assert.Equal(t, got.err, err)
	})
	running.Wait()
	<-ended
	require.EqualValues(t, 1, calls.Load())
	require.Len(t, got.results, int(taken.Load()))
	return got
}

func failures(results []Result[int]) (n int) {
	for _, r := range results {
		if r.Err != nil {
			n++
		}
	}
	return n
}

// newSmall returns a purgatory that is cheap to make.
func newSmall(t *testing.T) *futures {
	t.Helper()
	clock, err := timer.NewManualTimer()
	require.NoError(t, err)
	return newPurgatory(t, purgatory.WithTimer(clock))
}

// Many goroutines make futures while the system's clock expires some of them and the
// purgatory shuts down.
func TestThousandsOfFuturesEndDuringShutdown(t *testing.T) {
	const (
		workers = 4
		each    = 1500
	)
	p := newPurgatory(t)
	var accepted, ended atomic.Int64
	var running sync.WaitGroup
	for w := range workers {
		running.Go(func() {
			for i := range each {
				timeout := time.Duration(1+i%3) * time.Millisecond
				f, err := GatherFunc(p, timeout, Quorum(2, 3), func(results []Result[int], err error) {
					ended.Add(1)
					assert.Equal(t, err == nil, len(results)-failures(results) == 2)
				}, string(rune('a'+w)), "all")
				if err != nil {
					assert.ErrorIs(t, err, purgatory.ErrClosed)
					continue
				}
				accepted.Add(1)
				for from := range 1 + i%3 { // a third of the futures gets too few results
					f.Deliver(from, i, nil)
				}
			}
			if w == 0 {
				assert.NoError(t, p.Shutdown(context.Background()))
			}
		})
	}
	running.Wait()
	require.NoError(t, p.Shutdown(t.Context()))
	assert.Equal(t, accepted.Load(), ended.Load())
	assert.Equal(t, accepted.Load(), p.Stats().Accepted)
}
