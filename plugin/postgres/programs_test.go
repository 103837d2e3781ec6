package postgres_test

import (
	"context"
	"errors"
	"os"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/plugin/postgres"
	"github.com/delayedop/purgatory/signals/signalstest"
)

// TestPrograms runs waits against a server of whose every answer a seed decides: connections are
// refused, break, fall silent, at any point of a subscription; notifications come late, twice,
// and with others' among them.
//
//   - A change that was committed ends its wait, once the faults are over. There is no audit, which
//     would repair it.
//   - A wait is answered once.
//   - When Run has returned, no connection is left, and no goroutine.
//
// A program depends on its seed: POSTGRES_SEED=17 repeats that one. POSTGRES_PROGRAMS says how many to run.
func TestPrograms(t *testing.T) {
	first, n := number("POSTGRES_SEED", 0), number("POSTGRES_PROGRAMS", 75)
	if first > 0 {
		n = 1
	}
	for seed := max(first, 1); seed < max(first, 1)+n; seed++ {
		synctest.Test(t, func(t *testing.T) { runProgram(t, newServer(uint64(seed))) })
		if t.Failed() {
			return
		}
	}
}

func number(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}

func runProgram(t *testing.T, s *server) {
	e, seed := s.engine(), s.seed
	e.Seed, e.Cuts, e.Waits = seed, 1+int(seed%3), 1+int(seed%5)
	e.Pause = []time.Duration{5 * time.Millisecond, 300 * time.Millisecond, 20 * time.Second}[seed%7%3]
	e.Patience = 10 * time.Minute
	o, err := signalstest.RandomCuts(t.Context(), e)
	time.Sleep(time.Minute) // what pgx closes by itself is closed
	if err != nil || o.Lost > 0 || o.Twice > 0 || len(s.sessions(false)) > 0 {
		t.Errorf("%v: %v; %d connections are left", o, err, len(s.sessions(false)))
		for i, p := range s.plans {
			t.Logf("connection %d: %v", i, p)
		}
		t.Logf("once more: POSTGRES_SEED=%d go test -run TestPrograms .", seed)
	}
	s.cut()
}

func TestAServerThatDoesNotAnswerListenIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(1)
		s.fates = []plan{{fault: listenSilent}}
		runProgram(t, s)
	})
}

// Nothing is wrong, and nobody notifies for an hour.
func TestAQuietConnectionStands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(1)
		s.fates = []plan{{}}
		h := heard{make(chan change, 10), make(chan error, 10)}
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- run(ctx, s.source(), h) }()
		time.Sleep(time.Hour)
		assert.Empty(t, ended)
		assert.Len(t, h.gaps, 1)
		require.NoError(t, s.write(ctx, "key", 7))
		time.Sleep(time.Second)
		assert.Len(t, h.changes, 1)
		over := errors.New("over")
		cancel(over)
		assert.ErrorIs(t, <-ended, over)
		s.cut()
	})
}

func TestTheErrorWrapsWhy(t *testing.T) {
	why := errors.New("no password")
	source, err := postgres.Listen(func(context.Context) (*pgx.Conn, error) { return nil, why }, "hints")
	require.NoError(t, err)
	assert.ErrorIs(t, run(t.Context(), source, heard{}), why)
}
