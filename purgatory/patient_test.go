package purgatory

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
)

// onStuck is a slog.Handler that calls a function for the records of stuck callbacks.
type onStuck struct {
	records
	call func()
}

func (h *onStuck) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == EventStuck {
		h.call()
	}
	return h.records.Handle(ctx, r)
}

// Shutdown waits for whatever of the purgatory still runs, also when every operation has ended.
func TestShutdownWaitsForEverythingThatRuns(t *testing.T) {
	for name, run := range map[string]func(t *testing.T, pause func()) (p *DelayedOperationPurgatory[string]){
		"a worker of its timer": func(t *testing.T, pause func()) *DelayedOperationPurgatory[string] {
			p, err := New[string]("test")
			require.NoError(t, err)
			_, err = p.own.AfterFunc(time.Second, pause)
			require.NoError(t, err)
			p.startReaper()
			time.Sleep(2 * time.Second)
			return p
		},
		"a worker that has not begun": func(t *testing.T, pause func()) *DelayedOperationPurgatory[string] {
			p := newManual(t)
			held := HoldWorkers(t, p)
			go func() { pause(); held.Release() }()
			o := submit(t, p, time.Hour, "a")
			p.Signal("a")
			require.True(t, p.ForceComplete(o))
			return p
		},
		"a function of CancelMatching, whose operation has ended": func(t *testing.T, pause func()) *DelayedOperationPurgatory[string] {
			p := newManual(t)
			o := submit(t, p, time.Hour, "a")
			go p.CancelMatching("a", nil, func(operation.Operation) bool { pause(); return true })
			synctest.Wait()
			require.True(t, p.ForceComplete(o))
			return p
		},
		"a callback": func(t *testing.T, pause func()) *DelayedOperationPurgatory[string] {
			p := newManual(t)
			o := &teller{tell: pause}
			_, err := p.TryCompleteElseWatch(o, time.Hour, "a")
			require.NoError(t, err)
			go p.ForceComplete(o)
			return p
		},
		"a record of a stuck callback": func(t *testing.T, pause func()) *DelayedOperationPurgatory[string] {
			p := newManual(t, WithSlowCallback(time.Second), WithLogger(slog.New(&onStuck{call: pause})))
			o := &teller{tell: func() { time.Sleep(time.Minute) }}
			_, err := p.TryCompleteElseWatch(o, time.Hour, "a")
			require.NoError(t, err)
			go p.ForceComplete(o)
			time.Sleep(2 * time.Second)
			p.AdvanceClock(0)
			return p
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				leave := make(chan struct{})
				p := run(t, func() { <-leave })
				synctest.Wait()
				done := make(chan error, 1)
				go func() { done <- p.Shutdown(t.Context()) }()
				time.Sleep(10 * time.Minute)
				select {
				case err := <-done:
					t.Errorf("it has returned (%v)", err)
				default:
				}
				close(leave)
				assert.NoError(t, <-done)
			})
		})
	}
}

// A callback that is stuck while Shutdown waits for it is logged, though the reaper has ended.
func TestACallbackThatKeepsShutdownIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log records
		p, err := New[string]("test", WithSlowCallback(time.Second), WithLogger(slog.New(&log)))
		require.NoError(t, err)
		leave := make(chan struct{})
		o := &teller{tell: func() { <-leave }}
		_, err = p.TryCompleteElseWatch(o, time.Hour, "a")
		require.NoError(t, err)
		go p.ForceComplete(o)
		synctest.Wait()
		require.NoError(t, p.Close())
		done := make(chan error, 1)
		go func() { done <- p.Shutdown(t.Context()) }()
		time.Sleep(time.Minute)
		assert.Len(t, log.find(EventStuck), 1)
		close(leave)
		assert.NoError(t, <-done)
	})
}

// Each stuck callback is logged once, however many are stuck at the same time; ten in a second.
func TestEachStuckCallbackIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const threshold = time.Second
		var log records
		p := newManual(t, WithSlowCallback(threshold), WithLogger(slog.New(&log)))
		leave := make(chan struct{})
		var group sync.WaitGroup
		const all = 25
		for range all {
			o := &teller{tell: func() { <-leave }}
			_, err := p.TryCompleteElseWatch(o, time.Hour, "a")
			require.NoError(t, err)
			group.Go(func() { p.ForceComplete(o) })
		}
		sweep := func() { p.AdvanceClock(0); synctest.Wait() }
		synctest.Wait()
		time.Sleep(threshold)
		sweep()
		assert.Zero(t, p.Stats().StuckCallbacks, "they have not been running for longer than the threshold")
		assert.Empty(t, log.find(EventStuck))
		time.Sleep(time.Nanosecond)
		assert.EqualValues(t, all, p.Stats().StuckCallbacks)
		for i := range 5 {
			sweep()
			found := log.find(EventStuck)
			assert.Len(t, found, min(10*(i+1), all))
			for _, r := range found {
				assert.NotContains(t, r, "suppressed", "the other ones are logged later")
			}
			time.Sleep(time.Second)
		}
		close(leave)
		group.Wait()
	})
}

// The stack of a stuck callback is found among those of thousands of goroutines.
func TestAStuckStackIsFoundInACrowd(t *testing.T) {
	const crowd = 6000 // their stacks are more than a megabyte
	var log records
	p := newManual(t, WithSlowCallback(1), WithStuckStacks(), WithLogger(slog.New(&log)))
	leave := make(chan struct{})
	var group sync.WaitGroup
	for range crowd {
		group.Go(func() { <-leave })
	}
	var entered sync.WaitGroup
	for range 3 {
		entered.Add(1)
		o := &stuckInACrowd{teller{tell: func() { entered.Done(); <-leave }}}
		_, err := p.TryCompleteElseWatch(o, time.Hour, "a")
		require.NoError(t, err)
		group.Go(func() { p.ForceComplete(o) })
	}
	entered.Wait()
	assert.Eventually(t, func() bool {
		p.AdvanceClock(0)
		return len(log.find(EventStuck)) == 3
	}, time.Minute, time.Millisecond)
	for _, r := range log.find(EventStuck) {
		assert.Contains(t, r["stack"], "stuckInACrowd")
	}
	close(leave)
	group.Wait()
}

type stuckInACrowd struct{ teller }

func (s *stuckInACrowd) OnComplete() { s.tell() }

// A clock that always finds something to expire sweeps all the same.
func TestAnAdvanceThatExpiresSomethingSweepsToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log records
		p := newManual(t, WithSlowCallback(time.Second), WithLogger(slog.New(&log)))
		leave := make(chan struct{})
		stuck := &teller{tell: func() { <-leave }}
		_, err := p.TryCompleteElseWatch(stuck, time.Hour, "a")
		require.NoError(t, err)
		go p.ForceComplete(stuck)
		time.Sleep(2 * time.Second)
		submit(t, p, time.Millisecond, "b")
		assert.True(t, p.AdvanceClock(time.Millisecond))
		synctest.Wait()
		assert.Len(t, log.find(EventStuck), 1)
		close(leave)
	})
}
