package nats_test

import (
	"context"
	"os"
	"runtime"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	natssignals "github.com/delayedop/purgatory/plugin/nats"
	"github.com/delayedop/purgatory/signals"
	"github.com/delayedop/purgatory/signals/signalstest"
)

// prefix is that of the subjects of programs.
const prefix = "hints"

// TestProgramsOfABucket and TestProgramsOfSubjects run waits against a server of whose every answer a
// seed decides: connections are refused, break, fall silent; subscriptions and inboxes are refused;
// requests are lost or fail; a consumer is forgotten, its messages are dropped or come twice; the
// stream is made anew; the route to the server of the writers is cut.
//
//   - A change that was made durable ends its wait, once the faults are over. There is no audit,
//     which would repair it.
//   - A wait is answered once.
//   - When Run has returned, no subscription is left but that of the client to its own inbox.
//   - When the client is closed, no connection is left, and no goroutine.
//
// A program depends on its seed: NATS_SEED=17 repeats that one. NATS_PROGRAMS says how many to run.
func TestProgramsOfABucket(t *testing.T)  { runPrograms(t, bucketProgram) }
func TestProgramsOfSubjects(t *testing.T) { runPrograms(t, subjectProgram) }

func runPrograms(t *testing.T, engine func(*scripted, *nats.Conn) signalstest.Engine[string]) {
	first, n := number("NATS_SEED", 0), number("NATS_PROGRAMS", 75)
	if first > 0 {
		n = 1
	}
	hints := int64(0)
	for seed := max(first, 1); seed < max(first, 1)+n; seed++ {
		synctest.Test(t, func(t *testing.T) {
			hints += runProgram(t, &scripted{seed: uint64(seed), state: map[string]int64{}}, engine)
		})
		if t.Failed() {
			return
		}
		// The client library keeps timers in a pool, and another bubble must not use those of this one.
		runtime.GC()
		runtime.GC()
	}
	if first == 0 && hints < int64(n) {
		t.Errorf("%d hints in %d programs", hints, n)
	}
}

func number(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}

// connect returns a client that never gives up.
func (s *scripted) connect(t *testing.T) *nats.Conn {
	nc, err := nats.Connect("nats://127.0.0.1:4222", nats.SetCustomDialer(s), nats.Timeout(2*time.Second), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1),
		nats.ReconnectWait(50*time.Millisecond), nats.ReconnectJitter(0, 0), nats.PingInterval(10*time.Second), nats.MaxPingsOutstanding(2),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	require.NoError(t, err)
	return nc
}

func runProgram(t *testing.T, s *scripted, engine func(*scripted, *nats.Conn) signalstest.Engine[string]) (hints int64) {
	stop := s.run()
	defer stop()
	nc := s.connect(t)
	e := engine(s, nc)
	e.Seed, e.Cuts, e.Waits = s.seed, 1+int(s.seed%3), 1+int(s.seed%5)
	e.Pause = []time.Duration{5 * time.Millisecond, 300 * time.Millisecond, 20 * time.Second}[s.seed%7%3]
	e.Patience = 10 * time.Minute
	e.Cut = s.cut
	e.Key = func(i int) string { return "k" + strconv.Itoa(i) }
	e.Read = func(_ context.Context, key string) (int64, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.state[key], nil
	}
	o, err := signalstest.RandomCuts(t.Context(), e)
	subscriptions := nc.NumSubscriptions()
	nc.Close()
	time.Sleep(time.Minute)
	if err != nil || o.Lost > 0 || o.Twice > 0 || subscriptions > 1 || s.connections() > 0 {
		t.Errorf("%v: %v; %d subscriptions and %d connections are left", o, err, subscriptions, s.connections())
		for i, p := range s.plans {
			t.Logf("connection %d: %+v", i, p)
		}
		t.Logf("once more: NATS_SEED=%d go test -run %s .", s.seed, t.Name())
	}
	return o.Stats.Hints
}

func bucketProgram(s *scripted, nc *nats.Conn) signalstest.Engine[string] {
	source := natssignals.KeyValue(nc, bucket)
	return signalstest.Engine[string]{
		Source: func() signals.Source[string] { return source },
		Write: func(_ context.Context, key string, value int64) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.state[key] = value
			s.stream = append(s.stream, key)
			for _, x := range append([]*session(nil), s.open...) {
				x.consumeLocked()
			}
			return nil
		},
	}
}

func subjectProgram(s *scripted, nc *nats.Conn) signalstest.Engine[string] {
	source, err := natssignals.Subjects(nc, prefix)
	if err != nil {
		panic(err)
	}
	return signalstest.Engine[string]{
		Source: func() signals.Source[string] { return source },
		Write: func(_ context.Context, key string, value int64) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.state[key] = value
			s.elsewhereLocked(key, "")
			return nil
		},
	}
}
