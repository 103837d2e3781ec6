package nats_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	natssignals "github.com/delayedop/purgatory/plugin/nats"
	"github.com/delayedop/purgatory/signals"
	"github.com/delayedop/purgatory/signals/signalstest"
)

// sources are both kinds, each with the engine of its programs.
var sources = map[string]func(*scripted, *nats.Conn) signalstest.Engine[string]{"a bucket": bucketProgram, "subjects": subjectProgram}

// atACalmServer runs a source at a server where nothing goes wrong, and ends it after test. The
// sink has room for so many changes.
func atACalmServer(t *testing.T, engine func(*scripted, *nats.Conn) signalstest.Engine[string], room int,
	test func(t *testing.T, e signalstest.Engine[string], h heard, ended chan error),
) {
	atAServer(t, &scripted{calm: true, state: map[string]int64{}}, engine, room, func(t *testing.T, e signalstest.Engine[string], h heard, ended chan error) {
		select {
		case cause := <-h.gaps:
			require.ErrorIs(t, cause, signals.ErrSubscribed)
		case err := <-ended:
			ended <- err
			require.NoError(t, err, "it has not stood")
		}
		test(t, e, h, ended)
	})
}

func atAServer(t *testing.T, s *scripted, engine func(*scripted, *nats.Conn) signalstest.Engine[string], room int,
	test func(t *testing.T, e signalstest.Engine[string], h heard, ended chan error),
) {
	synctest.Test(t, func(t *testing.T) {
		h := heard{changes: make(chan change, room), gaps: make(chan error, 10)}
		stop := s.run()
		nc := s.connect(t)
		e := engine(s, nc)
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- run(ctx, e.Source(), h) }()
		defer func() { // also after a failure: a bubble waits for its goroutines
			over := errors.New("over")
			cancel(over)
			for open := true; open; {
				select {
				case <-h.changes:
				case err := <-ended:
					if !s.deaf {
						assert.ErrorIs(t, err, over)
					}
					open = false
				}
			}
			nc.Close()
			stop()
			time.Sleep(time.Minute)
		}()
		test(t, e, h, ended)
	})
	runtime.GC() // see runPrograms
	runtime.GC()
}

// The server accepts everything, and delivers nothing: from the beginning, or from some time on.
func TestASourceThatHearsNothingDoesNotStand(t *testing.T) {
	for name, engine := range sources {
		for _, begins := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", begins: ", begins), func(t *testing.T) {
				s := &scripted{calm: true, deaf: !begins, state: map[string]int64{}}
				atAServer(t, s, engine, 10, func(t *testing.T, _ signalstest.Engine[string], h heard, ended chan error) {
					if begins {
						require.ErrorIs(t, <-h.gaps, signals.ErrSubscribed)
						s.mu.Lock()
						s.deaf = true
						s.mu.Unlock()
					}
					time.Sleep(7 * time.Second)
					assert.Empty(t, h.gaps)
					require.Len(t, ended, 1)
					err := <-ended
					assert.ErrorIs(t, err, signals.ErrDeaf)
					ended <- err
				})
			})
		}
	}
}

// The right to inboxes is taken away and given back after a while. The client does not subscribe again by itself. The source
// stands soon, however long that was.
func TestASourceStandsSoonAfterItsRightsAreBack(t *testing.T) {
	for seconds := 2; seconds < 14; seconds++ {
		synctest.Test(t, func(t *testing.T) {
			s := &scripted{calm: true, state: map[string]int64{}}
			stop := s.run()
			nc := s.connect(t)
			source := bucketProgram(s, nc).Source()
			r, err := signals.To[string](nobody{})
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- r.Run(ctx, source) }()
			time.Sleep(5 * time.Second)
			assert.True(t, r.Stats().Standing)
			s.denyInboxes()
			time.Sleep(time.Duration(seconds) * time.Second)
			if seconds > 6 {
				assert.False(t, r.Stats().Standing)
			}
			s.allowInboxes()
			time.Sleep(6 * time.Second)
			assert.True(t, r.Stats().Standing, "after %d s without the right, and 6 with it: %v", seconds, r.Stats().Err)
			cancel()
			t.Log(<-ended)
			nc.Close()
			stop()
			time.Sleep(time.Minute)
		})
		runtime.GC() // see runPrograms
		runtime.GC()
	}
}

// Nothing is written for an hour.
func TestAQuietSourceStands(t *testing.T) {
	for name, engine := range sources {
		t.Run(name, func(t *testing.T) {
			atACalmServer(t, engine, 10, func(t *testing.T, e signalstest.Engine[string], h heard, ended chan error) {
				time.Sleep(time.Hour)
				assert.Empty(t, ended)
				assert.Empty(t, h.gaps)
				require.NoError(t, e.Write(t.Context(), "key", 1))
				time.Sleep(time.Second)
				assert.Len(t, h.changes, 1)
			})
		})
	}
}

// The first key is written as soon as the source says that it is subscribed. No later gap repairs
// the loss, and the source of a bucket knows no revision yet to go on from.
func TestWhatIsWrittenAtMissedIsHeard(t *testing.T) {
	for name, engine := range sources {
		t.Run(name, func(t *testing.T) {
			atACalmServer(t, engine, 10, func(t *testing.T, e signalstest.Engine[string], h heard, _ chan error) {
				require.NoError(t, e.Write(t.Context(), "key", 1))
				time.Sleep(time.Minute)
				assert.Len(t, h.changes, 1)
			})
		})
	}
}

// The sink is slow, and takes all that waits for it, again and again.
func TestEachOverflowIsAGap(t *testing.T) {
	const room = 2
	defer natssignals.SetMaxKeys(room)()
	atACalmServer(t, subjectProgram, 0, func(t *testing.T, e signalstest.Engine[string], h heard, _ chan error) {
		for round := range 3 {
			for i := range 1 + room + 1 { // the sink holds the first one
				require.NoError(t, e.Write(t.Context(), fmt.Sprintf("key-%d-%d", round, i), 1))
				time.Sleep(100 * time.Millisecond)
			}
			for range 1 + room {
				select {
				case <-h.changes:
				case <-time.After(time.Minute):
					require.FailNow(t, "a hint is lost that has a place", "round %d", round)
				}
			}
			time.Sleep(time.Second)
			require.Len(t, h.gaps, 1, "round %d", round)
			assert.ErrorIs(t, <-h.gaps, signals.ErrOverflow)
		}
	})
}
