package purgatory

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/timer"
)

// thenTimer calls a function after each addition.
type thenTimer struct {
	*timer.SystemTimer
	then func()
}

func (t *thenTimer) AddAt(task *timer.TaskEntry, now, deadline time.Duration) error {
	err := t.SystemTimer.AddAt(task, now, deadline)
	t.then()
	return err
}

// An operation that is refused because Close comes while it is registered, after Close has stopped
// the timer, can be submitted again.
func TestAnOperationThatCloseRefusesIsAsNew(t *testing.T) {
	p, err := New[int](t.Name())
	require.NoError(t, err)
	p.timer = &thenTimer{p.own, func() { _ = p.Close() }}
	op := &refusedOp{}
	_, err = p.TryCompleteElseWatch(op, time.Hour, 1)
	require.ErrorIs(t, err, ErrClosed)

	other, err := New[int]("other")
	require.NoError(t, err)
	defer other.Close()
	_, err = other.TryCompleteElseWatch(op, time.Hour, 1)
	assert.NoError(t, err)
}

// An operation that was refused is as new also if another type that embeds the same
// DelayedOperation submits it: its methods are called, and no other's.
func TestARefusedOperationIsSubmittedByAnotherType(t *testing.T) {
	closed, err := New[int](t.Name(), WithMaxPending(1))
	require.NoError(t, err)
	defer closed.Close()
	_, err = closed.TryCompleteElseWatch(&refusedOp{}, time.Hour, 1)
	require.NoError(t, err)
	part := new(operation.DelayedOperation)
	first, second := &sharedOp{DelayedOperation: part}, &sharedOp{DelayedOperation: part}
	_, err = closed.TryCompleteElseWatch(first, time.Hour, 1)
	require.ErrorIs(t, err, ErrFull)

	other, err := New[int]("other")
	require.NoError(t, err)
	defer other.Close()
	_, err = other.TryCompleteElseWatch(second, time.Hour, 1)
	require.NoError(t, err)
	other.ForceComplete(second)
	assert.Zero(t, first.completed)
	assert.Equal(t, 1, second.completed)
}

type refusedOp struct{ operation.DelayedOperation }

func (*refusedOp) TryComplete() bool { return false }
func (*refusedOp) OnComplete()       {}
func (*refusedOp) OnExpiration()     {}

type sharedOp struct {
	*operation.DelayedOperation
	completed int
}

func (*sharedOp) TryComplete() bool { return false }
func (s *sharedOp) OnComplete()     { s.completed++ }
func (*sharedOp) OnExpiration()     {}

// A crowd that comes to a new purgatory makes the shard of its key, with what counts its keys, once.
func TestACrowdMakesAShardOnce(t *testing.T) {
	const keys, crowd = 1 << 14, 100
	p, err := New[int](t.Name(), WithWatcherShards(1), WithKeyStats(keys))
	require.NoError(t, err)
	defer p.Close()
	var before, after runtime.MemStats
	var all sync.WaitGroup
	start := make(chan struct{})
	for range crowd {
		all.Go(func() {
			<-start
			_, err := p.TryCompleteElseWatch(&refusedOp{}, NoTimeout, 1)
			assert.NoError(t, err)
		})
	}
	runtime.ReadMemStats(&before)
	close(start)
	all.Wait()
	runtime.ReadMemStats(&after)
	t.Log((after.TotalAlloc-before.TotalAlloc)>>10, "KiB")
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(10<<20))
}
