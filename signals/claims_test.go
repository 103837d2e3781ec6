package signals_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/examples/claims"
	"github.com/delayedop/purgatory/queue"
	"github.com/delayedop/purgatory/signals"
)

// table is an engine: a queue of jobs, each of which one transaction at a time can hold.
type table struct {
	mu    sync.Mutex
	jobs  []int
	looks int
	sinks []signals.Sink[string]
}

const ioTime = time.Millisecond

// look takes a job, and gives it back if ctx ends before the transaction is over.
func (b *table) look(ctx context.Context, _ string) (job int, found bool, err error) {
	b.mu.Lock()
	b.looks++
	if found = len(b.jobs) > 0; found {
		job, b.jobs = b.jobs[0], b.jobs[1:]
	}
	b.mu.Unlock()
	select {
	case <-time.After(ioTime):
		return job, found, nil
	case <-ctx.Done():
		if found {
			b.mu.Lock()
			b.jobs = append(b.jobs, job)
			b.mu.Unlock()
		}
		return 0, false, context.Cause(ctx)
	}
}

// put adds a job, and sends each replica a hint.
func (b *table) put(job int) {
	b.mu.Lock()
	b.jobs = append(b.jobs, job)
	sinks := slices.Clone(b.sinks)
	b.mu.Unlock()
	for _, sink := range sinks {
		sink.Changed("jobs", signals.Unknown)
	}
}

// replica starts a process's waits on b, and their hints. They end when ctx does.
func (b *table) replica(ctx context.Context, t *testing.T) *claims.Claims {
	c := claims.New(b.look)
	r, err := signals.To[string](c, signals.WithLag(0), signals.WithAudit(time.Minute))
	require.NoError(t, err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = r.Run(ctx, signals.SourceFunc[string](func(ctx context.Context, sink signals.Sink[string]) error {
			b.mu.Lock()
			b.sinks = append(b.sinks, sink)
			b.mu.Unlock()
			sink.Missed(signals.ErrSubscribed)
			<-ctx.Done()
			return context.Cause(ctx)
		}))
	}()
	t.Cleanup(func() { <-ended })
	return c
}

// One job wakes one waiter in each of three processes, and the next one where it was found.
func TestAJobWakesOneWaiterInEachProcess(t *testing.T) {
	const replicas, workers, jobs = 3, 30, 60
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		b := &table{}
		got := make(chan int, replicas*workers)
		for range replicas {
			c := b.replica(ctx, t)
			for range workers {
				go func() {
					if job, err := c.Claim(ctx, time.Hour, "jobs"); err == nil {
						got <- job
					}
				}()
			}
		}
		// idle waits until nobody looks. The audits come later.
		idle := func() {
			time.Sleep(10 * ioTime)
			synctest.Wait()
		}
		idle()
		for job := range jobs {
			before := b.looks
			b.put(job)
			idle()
			require.Len(t, got, 1, "job %d went to nobody, or to several", job)
			require.Equal(t, job, <-got)
			require.LessOrEqual(t, b.looks-before, 2*replicas, "job %d", job)
		}
		stop()
		synctest.Wait()
	})
}

// A burst of jobs, whose hints coalesce, is handed out to the last.
func TestABurstLeavesNothingOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		b := &table{}
		c := b.replica(ctx, t)
		got := make(chan int, 10)
		for range cap(got) {
			go func() {
				if job, err := c.Claim(ctx, time.Hour, "jobs"); err == nil {
					got <- job
				}
			}()
		}
		synctest.Wait()
		for job := range cap(got) {
			b.put(job)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Len(t, got, cap(got))
		stop()
		synctest.Wait()
	})
}

// A worker that leaves between its hint and its claim leaves the look to the next in line.
func TestAWorkerThatLeavesBetweenHintAndClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		b := &table{}
		c := b.replica(ctx, t)
		leaving, leave := context.WithCancelCause(ctx)
		left, got := make(chan error, 1), make(chan int, 1)
		go func() {
			_, err := c.Claim(leaving, time.Hour, "jobs")
			left <- err
		}()
		time.Sleep(10 * ioTime) // it has looked, and waits
		go func() {
			job, _ := c.Claim(ctx, time.Hour, "jobs")
			got <- job
		}()
		time.Sleep(10 * ioTime)
		b.put(7)
		synctest.Wait() // it looks
		gone := errors.New("gone")
		leave(gone)
		assert.ErrorIs(t, <-left, gone)
		time.Sleep(2 * ioTime)
		synctest.Wait()
		require.Len(t, got, 1, "the next in line has it at once")
		assert.Equal(t, 7, <-got)
		stop()
		synctest.Wait()
	})
}

// A process that dies with a job in its transaction tells nobody. The audit of another one finds it.
func TestAProcessThatDiesBetweenHintAndClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		b := &table{}
		dying, kill := context.WithCancel(ctx)
		other := b.replica(ctx, t)
		dead := b.replica(dying, t)
		got := make(chan int, 1)
		go func() { _, _ = dead.Claim(dying, time.Hour, "jobs") }()
		go func() {
			job, _ := other.Claim(ctx, time.Hour, "jobs")
			got <- job
		}()
		time.Sleep(10 * ioTime)
		b.mu.Lock()
		b.jobs = append(b.jobs, 7)
		b.mu.Unlock()
		dead.SignalUpTo("jobs", signals.Unknown) // its hint comes first
		synctest.Wait()
		other.SignalUpTo("jobs", signals.Unknown)
		time.Sleep(ioTime / 2)
		synctest.Wait() // the other process has looked, and found nothing
		kill()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.Empty(t, got, "nobody has told it")
		time.Sleep(time.Minute) // an audit is at most 10 % late
		synctest.Wait()
		require.Len(t, got, 1)
		assert.Equal(t, 7, <-got)
		stop()
		synctest.Wait()
	})
}

// A claim that finds nothing expires, and a hint that comes when nobody waits is for the next one.
func TestAClaimThatFindsNothingExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		b := &table{}
		c := b.replica(ctx, t)
		_, err := c.Claim(ctx, time.Second, "jobs")
		assert.ErrorIs(t, err, queue.ErrExpired)
		b.put(7)
		job, err := c.Claim(ctx, time.Second, "jobs")
		require.NoError(t, err)
		assert.Equal(t, 7, job)
		stop()
		synctest.Wait()
	})
}

// The page shows the code of the example.
func TestThePageShowsTheProbe(t *testing.T) {
	page, err := os.ReadFile("../docs/many-processes.md")
	require.NoError(t, err)
	source, err := os.ReadFile("example_test.go")
	require.NoError(t, err)
	_, probe, found := strings.Cut(string(source), "\n// ready is a probe")
	require.True(t, found)
	probe, _, _ = strings.Cut(probe, "\n}\n")
	assert.Contains(t, string(page), "// ready is a probe"+probe+"\n}\n```\n", "the page has another probe than the example")
}
