// Package claimstest tests claims on an engine that several processes share.
package claimstest

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/examples/claims"
	"github.com/delayedop/purgatory/signals"
)

// Engine has jobs, which are numbers, under one key. Its functions may be called by several goroutines at once.
type Engine struct {
	Key    string
	Look   func(ctx context.Context, key string) (job int, found bool, err error)
	Source func() (signals.Source[string], error) // of a process's hints

	Put  func(job int) error // adds a job, and tells every process
	Add  func(job int) error // adds a job, and tells nobody
	Hint func() error        // tells every process

	// Hold takes a job as a process does that dies before it commits. die is when it dies. ok is false if there is no job.
	Hold func() (die func() error, ok bool, err error)
}

const replicas, workers, jobs = 3, 10, 30

// OneOfMany fails t unless each job goes to one of the workers of three processes, and costs at most two looks for each
// process; and unless an audit of another process finds the job of one that dies between its hint and its commit.
func OneOfMany(t *testing.T, e Engine) {
	var looks atomic.Int64
	got := e.start(t, &looks)
	began, before := time.Now(), looks.Load()
	for job := range jobs {
		require.NoError(t, e.Put(job))
		require.Equal(t, job, <-got)
	}
	audits := replicas * (int64(time.Since(began)/time.Second) + 2) // on a slow machine some come meanwhile
	took := looks.Load() - before
	t.Logf("%d jobs, %d looks", jobs, took)
	assert.LessOrEqual(t, took, 2*replicas*jobs+audits)

	lost := jobs
	die := func() error { return nil }
	for held := false; !held; lost++ {
		for last := int64(-1); last != looks.Load(); time.Sleep(20 * time.Millisecond) {
			last = looks.Load() // until nobody looks any more
		}
		require.NoError(t, e.Add(lost))
		var err error
		die, held, err = e.Hold()
		require.NoError(t, err)
		if !held {
			require.Equal(t, lost, <-got, "an audit came first")
		}
	}
	before = looks.Load()
	require.NoError(t, e.Hint())
	for looks.Load() < before+replicas { // in vain
		time.Sleep(time.Millisecond)
	}
	require.NoError(t, die())
	assert.Equal(t, lost-1, <-got)
}

// start starts processes with their workers, which send the jobs that they get. They end with t.
func (e Engine) start(t *testing.T, looks *atomic.Int64) (got <-chan int) {
	ctx, stop := context.WithCancel(context.Background())
	jobs := make(chan int, replicas*workers)
	var running sync.WaitGroup
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
	for range replicas {
		c := claims.New(func(ctx context.Context, key string) (int, bool, error) {
			looks.Add(1)
			return e.Look(ctx, key)
		})
		hints, err := signals.To[string](c, signals.WithLag(0), signals.WithAudit(time.Second))
		require.NoError(t, err)
		source, err := e.Source()
		require.NoError(t, err)
		running.Go(func() { _ = hints.Run(ctx, source) })
		for range workers {
			running.Go(func() {
				for ctx.Err() == nil {
					if job, err := c.Claim(ctx, time.Hour, e.Key); err == nil {
						jobs <- job
					}
				}
			})
		}
		require.Eventually(t, func() bool { return hints.Stats().Standing }, time.Minute, time.Millisecond)
	}
	return jobs
}
