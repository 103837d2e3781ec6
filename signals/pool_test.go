package signals_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/signals"
)

var errCut = errors.New("the connection is cut")

// database is a database behind a pool of connections, which can be cut off.
type database struct {
	pool         chan struct{} // has a token for each connection that is in use
	queries, max atomic.Int64  // at this moment, and at most

	mu      sync.Mutex
	cut     chan struct{} // is closed when the connections break; nil: they are broken
	values  map[string]int
	refused int // queries that failed because of the cut
}

func newDatabase(connections int) *database {
	return &database{pool: make(chan struct{}, connections), cut: make(chan struct{}), values: map[string]int{}}
}

// acquire waits for a connection of the pool.
func (d *database) acquire(ctx context.Context) (release func(), err error) {
	select {
	case d.pool <- struct{}{}:
		return func() { <-d.pool }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// query takes 2 ms. While the database is cut off a query fails at once, or is not answered, as when packets are lost.
func (d *database) query(ctx context.Context, key string) (value int, err error) {
	n := d.queries.Add(1)
	defer d.queries.Add(-1)
	for most := d.max.Load(); n > most && !d.max.CompareAndSwap(most, n); most = d.max.Load() {
	}
	defer func() {
		if err != nil {
			d.mu.Lock()
			d.refused++
			d.mu.Unlock()
		}
	}()
	d.mu.Lock()
	cut := d.cut
	d.mu.Unlock()
	switch {
	case cut != nil:
		select {
		case <-time.After(2 * time.Millisecond):
		case <-cut:
			return 0, errCut
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	case even(key):
		return 0, errCut
	default:
		<-ctx.Done()
		return 0, ctx.Err()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.values[key], nil
}

// breaks cuts the database off, and mend ends that.
func (d *database) breaks() {
	d.mu.Lock()
	defer d.mu.Unlock()
	close(d.cut)
	d.cut = nil
}

func (d *database) mend() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cut = make(chan struct{})
}

func (d *database) write(key string, value int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.values[key] = value
}

// source is cut off together with the database, and has no hints to give.
func (d *database) source(ctx context.Context, sink signals.Sink[string]) error {
	d.mu.Lock()
	cut := d.cut
	d.mu.Unlock()
	if cut == nil {
		return errCut
	}
	sink.Missed(signals.ErrSubscribed)
	select {
	case <-cut:
		return errCut
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// A server has ten thousand long polls and ten connections to its database, and is cut off from it for five seconds. In
// that time everything changes. Each client gets the change, and none an error (issue 61): also if the time limit of a
// read begins before it has a connection, so that reads fail that queue for one.
func TestTenThousandLongPollsSurviveACutBehindTenConnections(t *testing.T) {
	const polls, connections, cut = 10_000, 10, 5 * time.Second
	for _, queues := range []bool{false, true} {
		t.Run(fmt.Sprint("the limit includes the queue: ", queues), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDatabase(connections)
				p := open(t)
				r, err := signals.To(p)
				require.NoError(t, err)
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- r.Run(ctx, signals.SourceFunc[string](d.source)) }()

				poll := func(key string) (status int) {
					value, err := signals.AwaitRead(ctx, p, time.Minute, func(ctx context.Context) (value int, done bool, err error) {
						if queues {
							var cancel context.CancelFunc
							ctx, cancel = context.WithTimeout(ctx, time.Second)
							defer cancel()
						}
						release, err := d.acquire(ctx)
						if err != nil {
							return 0, false, err
						}
						defer release()
						if !queues {
							var cancel context.CancelFunc
							ctx, cancel = context.WithTimeout(ctx, time.Second)
							defer cancel()
						}
						value, err = d.query(ctx, key)
						return value, err == nil && value > 0, err
					}, key)
					switch {
					case err == nil && value == 1:
						return http.StatusOK
					case errors.Is(err, purgatory.ErrExpired):
						return http.StatusNoContent
					default:
						return http.StatusServiceUnavailable
					}
				}
				answers := make(chan int, polls)
				key := func(i int) string { return fmt.Sprint("key", i) }
				for i := range polls {
					go func() { answers <- poll(key(i)) }()
				}
				time.Sleep(1500 * time.Millisecond) // a good part of the polls still read for the first time
				d.breaks()
				time.Sleep(cut)
				for i := range polls {
					d.write(key(i), 1)
				}
				d.mend()
				began := time.Now()
				got := map[int]int{}
				for range polls {
					got[<-answers]++
				}
				t.Logf("after %v all are answered; %d queries failed", time.Since(began), d.refused)
				assert.Equal(t, map[int]int{http.StatusOK: polls}, got, "answers by status")
				assert.LessOrEqual(t, d.max.Load(), int64(connections), "reads at once")
				assert.GreaterOrEqual(t, d.refused, connections, "the cut is felt")
				cancel()
				require.ErrorIs(t, <-ended, context.Canceled)
				require.NoError(t, p.Close())
			})
		})
	}
}
