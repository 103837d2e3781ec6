package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/signals"
)

// door is where a source connects: each time it waits until the test lets it in.
type door struct {
	connect func(context.Context) (*pgx.Conn, error)
	knocks  chan struct{}
	in      chan struct{}
}

func newDoor(connect func(context.Context) (*pgx.Conn, error)) *door {
	return &door{connect, make(chan struct{}), make(chan struct{})}
}

func (d *door) enter(ctx context.Context) (*pgx.Conn, error) {
	for _, c := range []chan struct{}{d.knocks, d.in} {
		select {
		case c <- struct{}{}:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return d.connect(ctx)
}

// told tells when the source stands, and passes on all subscriptions, or the first only.
type told struct {
	signals.Sink[string]
	missed    chan error
	firstOnly bool
	stands    bool
}

func (s *told) Subscribed(subscription signals.Subscription) {
	if s.firstOnly && len(s.missed) > 0 {
		s.missed <- nil
		return
	}
	s.Sink.Subscribed(subscription)
}

func (s *told) Heard(probe uint64) {
	s.Sink.Heard(probe)
	if !s.stands {
		s.stands = true
		s.missed <- nil
	}
}

// The keys are written while the source is cut off, and PostgreSQL keeps nothing for it.
// Without the second re-check every wait outlives the re-subscription. With it none does.
func waitsNeedRechecks(t *testing.T, d *database, firstOnly bool) {
	const n = 100
	door := newDoor(d.connect)
	e := d.engineBehind(door.enter)
	source, missed := e.Source(), make(chan error, 10)
	p := hear(t, signals.SourceFunc[string](func(ctx context.Context, sink signals.Sink[string]) error {
		return source.Run(ctx, &told{Sink: sink, missed: missed, firstOnly: firstOnly})
	}))
	letIn := func(subscriptions int) {
		receive(t, door.in, "the source's turn to connect")
		for deadline := time.Now().Add(time.Minute); len(missed) < subscriptions; time.Sleep(time.Millisecond) {
			require.True(t, time.Now().Before(deadline), "the source does not stand")
		}
	}
	await := func(key string) (answered chan error) {
		answered = make(chan error, 1)
		asleep := make(chan struct{}, 10)
		go func() {
			_, err := signals.AwaitRead(t.Context(), p, time.Hour, func(ctx context.Context) (int64, bool, error) {
				v, err := e.Read(ctx, key)
				asleep <- struct{}{}
				return v, v > 0, err
			}, key)
			answered <- err
		}()
		receive(t, asleep, "the first read")
		return answered
	}
	receive(t, door.knocks, "the first connection")
	letIn(1)
	answers := make([]chan error, n)
	for i := range n {
		answers[i] = await(key(i))
	}
	e.Cut()
	receive(t, door.knocks, "the second connection")
	for i := range n {
		require.NoError(t, e.Write(t.Context(), key(i), 1))
	}
	letIn(2)
	last := await("last")
	require.NoError(t, e.Write(t.Context(), "last", 1))
	require.NoError(t, receive(t, last, "the answer to a key that is written later"))
	if firstOnly {
		assert.Equal(t, n, p.NumDelayed(), "waits that nobody ends")
		return
	}
	for i := range n {
		require.NoError(t, receive(t, answers[i], "an answer"))
	}
}
