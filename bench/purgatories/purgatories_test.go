package purgatories

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/bench/meter"
)

func forEach(t *testing.T, f func(t *testing.T, p Purgatory)) {
	for _, name := range []string{Ours, CB, Chan} {
		t.Run(name, func(t *testing.T) {
			p := New(name)
			defer p.Close()
			f(t, p)
		})
	}
}

func TestOneCheckCompletesABatch(t *testing.T) {
	forEach(t, func(t *testing.T, p Purgatory) {
		lane := NewLane()
		for range 100 {
			lane.Expect(64)
			for range 64 {
				p.Submit(lane, time.Minute, []string{"a", "quiet", "quieter"})
			}
			p.Settle(lane)
			lane.Arrive()
			p.Check("a")
			lane.Wait()
		}
		require.Eventually(t, func() bool { return p.Pending() == 0 }, time.Minute, time.Millisecond)
	})
}

func TestUnmetConditionGoesOnWaiting(t *testing.T) {
	forEach(t, func(t *testing.T, p Purgatory) {
		lane := NewLane()
		lane.Expect(1)
		p.Submit(lane, time.Minute, []string{"a"})
		p.Settle(lane)
		for range 3 {
			p.Check("a")
			p.Check("b")
		}
		assert.Equal(t, 1, p.Pending())
		lane.Arrive()
		p.Check("a")
		lane.Wait()
	})
}

// forEachTimer is forEach and the standard library's timers, which have no checks.
func forEachTimer(t *testing.T, f func(t *testing.T, p Purgatory)) {
	forEach(t, f)
	t.Run(Timers, func(t *testing.T) { f(t, New(Timers)) })
}

func TestForceEndsOnce(t *testing.T) {
	forEachTimer(t, func(t *testing.T, p Purgatory) {
		op := p.Submit(NewLane(), time.Minute, []string{"a"})
		assert.True(t, p.Force(op))
		assert.False(t, p.Force(op))
		require.Eventually(t, func() bool { return p.Pending() == 0 }, time.Minute, time.Millisecond)
	})
}

// A step satisfies those whose position it reaches, whoever knows positions.
func TestAStepEndsThoseItReaches(t *testing.T) {
	for _, name := range []string{Ours, Timers} {
		p := New(name)
		ordered := p.(Ordered)
		lane := NewLane()
		lane.Expect(3)
		for position := range int64(5) {
			ordered.SubmitAt(lane, time.Minute, "log", position+1)
		}
		lane.Arrive()
		ordered.CheckUpTo("log", 3)
		lane.Wait()
		assert.Equal(t, 2, p.Pending(), name)
		p.Close()
	}
}

func TestAnOperationExpires(t *testing.T) {
	forEachTimer(t, func(t *testing.T, p Purgatory) {
		lane := NewLane()
		op := p.Submit(lane, time.Millisecond, []string{"a"})
		require.Eventually(t, func() bool { return p.Pending() == 0 && lane.batch.expired.Load() == 1 }, time.Minute, time.Millisecond)
		assert.False(t, p.Force(op))
	})
}

func TestProbesExpire(t *testing.T) {
	forEachTimer(t, func(t *testing.T, p Purgatory) {
		late := meter.NewLateness(10)
		probes := Probes(late, 10)
		for i := range probes {
			late.Due(i, 10*time.Millisecond)
			p.Submit(&probes[i], 10*time.Millisecond, []string{"a"})
		}
		select {
		case <-late.Done:
		case <-time.After(time.Minute):
			t.Fatal("probes did not expire")
		}
		assert.Zero(t, meter.Early(late.Sorted()))
	})
}

func TestHandWrittenOperationThatEndedIsInNoSlice(t *testing.T) {
	c := newCallbacks()
	lane := NewLane()
	for range 10 {
		lane.Expect(1)
		c.Submit(lane, time.Minute, []string{"a", "quiet"})
		c.Force(c.Submit(lane, time.Minute, []string{"b", "quiet"}))
		c.Submit(lane, time.Microsecond, []string{"c", "quiet"})
		lane.Arrive()
		c.Check("a")
	}
	require.Eventually(t, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.mu.watchers) == 0
	}, time.Minute, time.Millisecond)
}
