//go:build !race

package queue

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/timer"
)

func TestWhatARequestAllocates(t *testing.T) {
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	units, values := counted(t, 1, WithMaxWaiting(100)), newQueue[int](t, WithAging(time.Second))
	kinds := []string{"a kind"} // a literal in the call would escape, since the queue keeps the tenant
	assert.Zero(t, allocs(100, func() {
		_, _ = units.Take(ctx, time.Minute)
		_ = units.Put(struct{}{})
	}), "a free unit")
	assert.Zero(t, allocs(100, func() {
		_ = values.Put(1, Place{Tenant: "a", Class: 3, Cost: 0.5, Kinds: kinds})
		_, _ = values.Take(ctx, time.Minute, Place{Tenant: "b", Kinds: kinds})
	}), "a free item of a kind")
	assert.Zero(t, allocs(100, func() {
		_ = values.Put(1, Place{Tenant: "a", Class: 3, Cost: 0.5})
		_, _ = values.Take(ctx, time.Minute, Place{Tenant: "b"})
	}), "a free item at a place")
	assert.Zero(t, allocs(100, func() {
		for _, tenant := range [...]string{"a", "b", "c"} {
			_ = values.Put(1, Place{Tenant: tenant})
			_, _ = values.Take(ctx, time.Minute)
		}
	}), "of tenants in turn")
	clock, err := timer.NewManualTimer()
	require.NoError(t, err)
	started := newQueue[int](t, WithTimer(clock))
	called := func(int, error) {}
	assert.Equal(t, 1, allocs(100, func() {
		_, _ = started.Start(time.Minute, called, Place{Tenant: "a"})
		_ = started.Put(1)
		clock.AdvanceClock(time.Millisecond)
	}), "a request with a callback")
	assert.Equal(t, 2, allocs(100, func() {
		w, _ := started.Start(time.Minute, nil, Place{Tenant: "a"})
		_ = started.Put(1)
		_, _ = w.Result()
	}), "a request with a channel")
}

func TestATakeThatBlocksAllocatesNothing(t *testing.T) {
	for name, at := range map[string][]Place{"plain": nil, "at a place": {{Tenant: "a", Cost: 2}}} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(background)
			defer cancel()
			q := newQueue[int](t)
			got := make(chan int)
			go func() {
				for {
					item, err := q.Take(ctx, time.Minute, at...)
					if err != nil {
						close(got)
						return
					}
					got <- item
				}
			}()
			assert.Zero(t, allocs(1000, func() {
				for waiting(q) == 0 {
					runtime.Gosched()
				}
				_ = q.Put(1)
				<-got
			}))
			cancel()
			for range got {
			}
		})
	}
}

func allocs(runs int, f func()) int { return int(testing.AllocsPerRun(runs, f)) }
