package watermark

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/purgatory"
)

var errNotLeader = errors.New("not the leader")

// KAFKA-20634: a write waits until it is replicated, its leader steps down, and the log is truncated. Then the high
// watermark rises by what the successor has written, and the lost write was answered with success.
func TestNobodyGetsAYesFromASuccessorsProgress(t *testing.T) {
	inBubble(t, func(t *testing.T, p *strings, era5 *Watermark[string]) {
		era5.Advance(90)
		waits := await(era5, 96)
		era5.Close(errNotLeader)
		waits.returned(t, errNotLeader)

		era6 := New(p, "a", 80)
		late := await(era5, 97) // a handler between its append and its wait
		late.returned(t, errNotLeader)
		follows := await(era6, 97)
		era5.Advance(100) // somebody who does not know yet
		era6.Advance(100)
		follows.returned(t, nil)
		await(era5, 98).returned(t, errNotLeader)
		await(era5, 85).returned(t, errNotLeader)
		require.EqualValues(t, 90, era5.Position())
		left(t, era5)
		left(t, era6)
	})
}

// openraft 500: a leader that reverts to follower tells the clients that wait, all of them, whatever they wait for.
func TestALeaderThatRevertsTellsThoseWhoWait(t *testing.T) {
	inBubble(t, func(t *testing.T, p *strings, w *Watermark[string]) {
		var all []*waiter
		for position := range int64(300) { // more than two batches
			all = append(all, await(w, position+1), await(w, position+1))
		}
		require.Equal(t, 600, w.Waiting())
		w.Close(errNotLeader)
		for _, g := range all {
			g.returned(t, errNotLeader)
		}
		left(t, w)
	})
}

// etcd 8975: a read that comes when the leader has gone sat out its whole context.
func TestWhoComesLateDoesNotSitOutTheContext(t *testing.T) {
	p := newPurgatory(t)
	w := New(p, "a", 7)
	w.Close(errNotLeader)
	for _, position := range []int64{6, 7, 8} {
		require.Equal(t, errNotLeader, w.Await(context.Background(), purgatory.NoTimeout, position))
		require.Equal(t, errNotLeader, w.Await(ended(), purgatory.NoTimeout, position))
		wait, err := w.StartWait(position)
		require.Equal(t, errNotLeader, err)
		require.Nil(t, wait)
	}
	require.Zero(t, p.Stats().Accepted)
}

func TestTheFirstCauseWins(t *testing.T) {
	inBubble(t, func(t *testing.T, p *strings, w *Watermark[string]) {
		first := await(w, 5)
		w.Advance(3)
		w.Close(nil)
		first.returned(t, ErrClosed)
		w.Close(errGone)
		w.Advance(9)
		w.Recede(1)
		await(w, 5).returned(t, ErrClosed)
		require.EqualValues(t, 3, w.Position())
		require.NotErrorIs(t, ErrClosed, purgatory.ErrClosed, "the purgatory is open")
		left(t, w)
	})
}

// Close ends the waits of the watermark, and nothing else under its key.
func TestCloseLeavesOthersAlone(t *testing.T) {
	inBubble(t, func(t *testing.T, p *strings, w *Watermark[string]) {
		successor := New(p, "a", 0)
		mine, theirs := await(w, 5), await(successor, 5)
		other, err := p.StartWait(purgatory.NoTimeout, func() bool { return false }, "a")
		require.NoError(t, err)
		w.Close(errGone)
		mine.returned(t, errGone)
		theirs.waits(t)
		require.ErrorIs(t, other.Err(), purgatory.ErrPending)
		successor.Advance(5)
		theirs.returned(t, nil)
		require.True(t, other.Stop())
		left(t, w)
	})
}

// An Await that began before Close gets the answer of the moment of Close.
func TestAPositionThatWasReachedBeforeCloseIsReached(t *testing.T) {
	p := newPurgatory(t)
	w := New(p, "a", 0)
	require.NoError(t, w.Await(asked{context.Background(), func() { w.Advance(5); w.Close(errGone) }}, purgatory.NoTimeout, 5))
	require.Equal(t, errGone, w.Await(context.Background(), purgatory.NoTimeout, 5))

	higher := New(p, "b", 0)
	require.Equal(t, errGone, higher.Await(asked{context.Background(), func() { higher.Advance(5); higher.Close(errGone) }}, purgatory.NoTimeout, 6))

	// Advance has raised the position, and Close comes before its check.
	raised := New(p, "c", 0)
	s := entered(t, raised)
	raised.at.Store(5)
	raised.Close(errGone)
	<-s.over
	require.NoError(t, s.err())
	left(t, raised)
}

// Close finds nothing to end while a wait is being registered, nor may it be left.
func TestCloseWhileAWaitIsBeingRegistered(t *testing.T) {
	inBubble(t, func(t *testing.T, p *strings, w *Watermark[string]) {
		s, starts, err := enter(w, 5)
		require.NoError(t, err)
		require.True(t, starts)
		second := await(w, 5)
		w.Close(errGone)
		require.NoError(t, s.start())
		second.returned(t, errGone)
		require.Equal(t, errGone, s.err())
		left(t, w)
	})
}

// A goroutine holds a wait to try it when Close comes: it ends it.
func TestCloseWhileAWaitIsTried(t *testing.T) {
	inBubble(t, func(t *testing.T, p *strings, w *Watermark[string]) {
		inside, goOn := make(chan struct{}), make(chan struct{})
		other, err := p.StartWait(purgatory.NoTimeout, func() bool {
			select {
			case <-inside:
			default:
				return false
			}
			<-goOn
			return false
		}, "a")
		require.NoError(t, err)
		waits := await(w, 5)
		close(inside)
		checked := make(chan struct{})
		go func() { defer close(checked); w.Advance(4) }() // it is in the condition of other, which comes first
		synctest.Wait()
		w.Close(errGone)
		waits.returned(t, errGone)
		close(goOn)
		<-checked
		other.Stop()
		left(t, w)
	})
}

// Whatever meets Close: nobody gets a yes for a position that was not reached by then, and who waited before gets a
// yes if it was.
func TestCloseBesideAwaitAndAdvance(t *testing.T) {
	p := newPurgatory(t)
	for range 300 {
		w := New(p, "a", 0)
		var closing, closed atomic.Bool
		var running sync.WaitGroup
		for g := range int64(6) {
			running.Go(func() {
				for position := g + 1; ; position += 3 {
					late, early := closed.Load(), false
					wait, err := w.StartWait(position)
					if err == nil {
						early = !closing.Load()
						if g < 3 {
							err = w.Await(context.Background(), purgatory.NoTimeout, position)
						}
						<-wait.Done()
					}
					if err == nil {
						err = wait.Err()
					}
					if err == nil {
						assert.False(t, late)
						assert.GreaterOrEqual(t, w.Position(), position)
						continue
					}
					assert.Equal(t, errGone, err)
					assert.True(t, closing.Load())
					if early {
						assert.Equal(t, w.Position() >= position, wait.Err() == nil, "%d at %d", position, w.Position())
					}
					return
				}
			})
		}
		running.Go(func() {
			for to := int64(1); !closed.Load(); to++ {
				w.Advance(to)
				runtime.Gosched()
			}
			w.Advance(1 << 60)
		})
		running.Go(func() {
			for w.Position() < 20 {
				runtime.Gosched()
			}
			closing.Store(true)
			w.Close(errGone)
			closed.Store(true)
		})
		running.Wait()
		require.Less(t, w.Position(), int64(1<<60))
		left(t, w)
	}
}
