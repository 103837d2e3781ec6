package signals_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/signals"
)

// mirror is a source of which a test says what comes back.
type mirror struct {
	probes chan uint64 // sent so far
	fails  error       // of Probe
	hangs  bool        // Probe does, until its context ends
}

func newMirror() *mirror { return &mirror{probes: make(chan uint64, 10_000)} }

func (m *mirror) subscription() signals.Subscription {
	return signals.Subscription{Every: time.Second, Limit: 3 * time.Second, Probe: func(ctx context.Context, n uint64) error {
		m.probes <- n
		if m.hangs {
			<-ctx.Done()
			return ctx.Err()
		}
		return m.fails
	}}
}

func (m *mirror) Run(ctx context.Context, sink signals.Sink[string]) error {
	sink.Subscribed(m.subscription())
	<-ctx.Done()
	return context.Cause(ctx)
}

func (m *mirror) last() (n uint64) {
	for len(m.probes) > 0 {
		n = <-m.probes
	}
	return n
}

func alone(t *testing.T, options ...signals.Option) *signals.Runner[string] {
	t.Helper()
	r, err := signals.To[string](nobody{}, append([]signals.Option{signals.WithLag(0), signals.WithAudit(0)}, options...)...)
	require.NoError(t, err)
	return r
}

func TestASourceStandsWhenItHasHeardItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, m := alone(t), newMirror()
		stop := runIn(t, r, m)
		time.Sleep(time.Second)
		s := r.Stats()
		assert.False(t, s.Standing)
		assert.Zero(t, s.Rechecks, "what is written before the first probe comes back has no hint yet")
		assert.Len(t, m.probes, 4, "after 0, 100, 300 and 700 ms")
		r.Heard(m.last())
		synctest.Wait()
		s = r.Stats()
		assert.True(t, s.Standing)
		assert.EqualValues(t, 1, s.Rechecks)
		assert.Zero(t, s.Gaps)
		time.Sleep(500 * time.Millisecond)
		for range 3600 {
			time.Sleep(time.Second)
			require.Len(t, m.probes, 1)
			r.Heard(m.last())
		}
		s = r.Stats()
		assert.True(t, s.Standing)
		assert.Zero(t, s.Ends)
		assert.EqualValues(t, 1, s.Rechecks)
		assert.Zero(t, s.SinceLastWord)
		stop()
	})
}

// The engine delivers nothing, from the beginning or from some time on.
func TestASourceThatDoesNotHearItselfEnds(t *testing.T) {
	for name, begins := range map[string]bool{"at the beginning": false, "in the middle": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, m := alone(t, signals.WithBackoff(time.Hour, time.Hour)), newMirror()
				stop := runIn(t, r, m)
				synctest.Wait()
				if begins {
					r.Heard(m.last())
				}
				time.Sleep(3*time.Second - 1)
				assert.Equal(t, begins, r.Stats().Standing)
				assert.Zero(t, r.Stats().Ends)
				time.Sleep(time.Nanosecond)
				assert.False(t, r.Stats().Standing, "at the limit, whichever goroutine runs first")
				synctest.Wait()
				s := r.Stats()
				assert.EqualValues(t, 1, s.Ends)
				assert.ErrorIs(t, s.Err, signals.ErrDeaf)
				stop()
			})
		})
	}
}

// A source that hears itself at once is probed once in each interval from then on.
func TestASourceThatHearsItselfAtOnceIsProbedAtIntervals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, m := alone(t), newMirror()
		stop := runIn(t, r, m)
		synctest.Wait()
		r.Heard(m.last())
		time.Sleep(time.Second / 2)
		for range 10 {
			require.Empty(t, m.probes)
			time.Sleep(time.Second)
			require.Len(t, m.probes, 1)
			r.Heard(m.last())
		}
		stop()
	})
}

// stubborn is a mirror whose Run does not return before it is released. Its second probe does what second says.
type stubborn struct {
	*mirror
	release chan struct{}
	second  func() error
}

func newStubborn() *stubborn {
	return &stubborn{newMirror(), make(chan struct{}), func() error { return nil }}
}

func (s *stubborn) Run(ctx context.Context, sink signals.Sink[string]) error {
	subscription := s.subscription()
	probe := subscription.Probe
	subscription.Probe = func(ctx context.Context, n uint64) error {
		if err := probe(ctx, n); err != nil || n != 2 {
			return err
		}
		return s.second()
	}
	sink.Subscribed(subscription)
	<-ctx.Done()
	<-s.release
	return context.Cause(ctx)
}

// A source that is deaf does not stand again before it has subscribed again, though an answer comes after all.
func TestADeafSourceDoesNotStandAgain(t *testing.T) {
	for name, c := range map[string]struct {
		second error
		after  time.Duration
	}{"no answer": {nil, 3 * time.Second}, "no probe": {errors.New("no right to publish"), time.Second}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, m := alone(t), newStubborn()
				m.second = func() error { return c.second }
				stop := runIn(t, r, m)
				synctest.Wait()
				r.Heard(m.last())
				require.True(t, r.Stats().Standing)
				time.Sleep(c.after)
				synctest.Wait()
				require.False(t, r.Stats().Standing)
				r.Heard(m.last())
				assert.False(t, r.Stats().Standing, "it is being ended")
				close(m.release)
				stop()
			})
		})
	}
}

// A source does not stand any more when its limit has passed, though a probe still hangs.
func TestASourceWhoseProbeHangsBeyondTheLimitDoesNotStand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, m := alone(t), newStubborn()
		m.second = func() error { <-m.release; return nil }
		stop := runIn(t, r, m)
		synctest.Wait()
		r.Heard(m.last())
		time.Sleep(3*time.Second - 1)
		assert.True(t, r.Stats().Standing)
		time.Sleep(2 * time.Second)
		assert.False(t, r.Stats().Standing)
		close(m.release)
		stop()
	})
}

func TestAProbeThatCannotBeSentEndsTheSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, m := alone(t, signals.WithBackoff(time.Hour, time.Hour)), newMirror()
		m.fails = errors.New("no right to publish")
		stop := runIn(t, r, m)
		synctest.Wait()
		s := r.Stats()
		assert.EqualValues(t, 1, s.Ends)
		assert.ErrorIs(t, s.Err, signals.ErrDeaf)
		assert.ErrorIs(t, s.Err, m.fails)
		stop()
	})
}

func TestAProbeThatHangsIsGivenUpAtTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, m := alone(t, signals.WithBackoff(time.Hour, time.Hour)), newMirror()
		m.hangs = true
		stop := runIn(t, r, m)
		time.Sleep(3*time.Second - 1)
		assert.Zero(t, r.Stats().Ends)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		assert.EqualValues(t, 1, r.Stats().Ends)
		assert.ErrorIs(t, r.Stats().Err, signals.ErrDeaf)
		assert.ErrorContains(t, r.Stats().Err, "no probe could be sent for 3s")
		stop()
	})
}

// Only a probe of this subscription that has been sent, and has not come back, is an answer.
func TestWhatIsNoAnswerDoesNotMakeASourceStand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, m := alone(t, signals.WithBackoff(time.Second, time.Second)), newMirror()
		r.Heard(1)
		r.Subscribed(m.subscription()) // no source runs
		stop := runIn(t, r, m)
		synctest.Wait()
		early := m.last()
		r.Heard(early + 1)
		r.Heard(0)
		assert.False(t, r.Stats().Standing, "it was not sent yet")
		time.Sleep(5 * time.Second)
		assert.EqualValues(t, 1, r.Stats().Ends)
		r.Heard(early)
		assert.False(t, r.Stats().Standing, "it is of an earlier subscription")
		n := m.last()
		r.Heard(n)
		assert.True(t, r.Stats().Standing)
		time.Sleep(2 * time.Second)
		later := m.last()
		require.Greater(t, later, n)
		r.Heard(later)
		for range 29 {
			time.Sleep(100 * time.Millisecond)
			r.Heard(n) // of two answers, one comes again, and the other one late
			r.Heard(later)
		}
		s := r.Stats()
		assert.Equal(t, []any{true, 2900 * time.Millisecond}, []any{s.Standing, s.SinceLastWord})
		time.Sleep(100 * time.Millisecond)
		assert.False(t, r.Stats().Standing, "both have come back before")
		stop()
	})
}

// A source that subscribes again by itself does not stand until it has heard itself again.
func TestASourceThatSubscribesAgainHasAGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, m := alone(t), newMirror()
		again := make(chan struct{})
		stop := runIn(t, r, signals.SourceFunc[string](func(ctx context.Context, sink signals.Sink[string]) error {
			sink.Subscribed(m.subscription())
			<-again
			sink.Subscribed(m.subscription())
			<-ctx.Done()
			return ctx.Err() // the error, and not the cause
		}))
		synctest.Wait()
		before := m.last()
		r.Heard(before)
		r.Missed(errBroken) // an overflow
		synctest.Wait()
		assert.EqualValues(t, 1, r.Stats().Gaps)
		assert.True(t, r.Stats().Standing)
		close(again)
		synctest.Wait()
		assert.False(t, r.Stats().Standing)
		r.Missed(errBroken)
		r.Heard(before)
		assert.False(t, r.Stats().Standing)
		r.Heard(m.last())
		assert.True(t, r.Stats().Standing)
		assert.EqualValues(t, 2, r.Stats().Gaps)
		assert.Zero(t, r.Stats().Ends)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		assert.ErrorIs(t, r.Stats().Err, signals.ErrDeaf)
		stop()
	})
}

func TestASubscriptionThatCannotBeProbedIsFinal(t *testing.T) {
	valid := newMirror().subscription()
	for name, change := range map[string]func(*signals.Subscription){
		"no probe": func(s *signals.Subscription) { s.Probe = nil }, "never": func(s *signals.Subscription) { s.Every = 0 },
		"no patience": func(s *signals.Subscription) { s.Limit = s.Every },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := valid
				change(&s)
				assert.ErrorIs(t, alone(t).Run(t.Context(), signals.SourceFunc[string](func(ctx context.Context, sink signals.Sink[string]) error {
					sink.Subscribed(s)
					<-ctx.Done()
					return context.Cause(ctx)
				})), signals.ErrFinal)
			})
		})
	}
}

// What an engine does not say at all is logged when it is found, and once.
func TestWhatASourceIsBlindToIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		r, m := alone(t, signals.WithLogger(slog.New(slog.NewTextHandler(&log, nil)))), newMirror()
		stop := runIn(t, r, signals.SourceFunc[string](func(ctx context.Context, sink signals.Sink[string]) error {
			s := m.subscription()
			s.Blind = "keys that expire"
			sink.Subscribed(s)
			<-ctx.Done()
			return context.Cause(ctx)
		}))
		time.Sleep(time.Minute)
		assert.Equal(t, "keys that expire", r.Stats().Blind)
		assert.Greater(t, r.Stats().Ends, int64(10))
		stop()
		synctest.Wait()
		assert.Equal(t, 1, strings.Count(log.String(), signals.EventBlind))
	})
}

// What a source says of its subscription holds for that one, and not for the next, whether it subscribes again or is run again.
func TestWhatASourceSaysIsForgottenWithItsSubscription(t *testing.T) {
	for name, again := range map[string]bool{"in the same run": true, "in the next run": false} {
		synctest.Test(t, func(t *testing.T) {
			r, err := signals.To[string](crowd{n: 100_000}, signals.WithLag(0))
			require.NoError(t, err)
			subscribe := func(sink signals.Sink[string], audit time.Duration, blind string) {
				sink.Subscribed(signals.Subscription{
					Every: time.Second, Limit: time.Minute, Audit: audit, Blind: blind,
					Probe: func(_ context.Context, n uint64) error { sink.Heard(n); return nil },
				})
				time.Sleep(time.Hour)
			}
			first := true
			stop := runIn(t, r, signals.SourceFunc[string](func(ctx context.Context, sink signals.Sink[string]) error {
				if first {
					first = false
					if subscribe(sink, 10*time.Second, "keys that expire"); !again {
						return errBroken
					}
				}
				subscribe(sink, 0, "")
				<-ctx.Done()
				return context.Cause(ctx)
			}))
			time.Sleep(time.Hour / 2)
			s := r.Stats()
			assert.Equal(t, "keys that expire", s.Blind, name)
			assert.Greater(t, s.Audits, int64(200), name)
			time.Sleep(time.Hour)
			before := r.Stats().Audits
			time.Sleep(time.Hour)
			s = r.Stats()
			assert.Empty(t, s.Blind, name)
			assert.InDelta(t, 82, s.Audits-before, 15, "%s: one in about 45 s", name)
			stop()
		})
	}
}

// A source that has stood for an hour, and is deaf, is run again after the first pause.
func TestTheBackoffBeginsAnewAfterDeafness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := alone(t, signals.WithBackoff(time.Second, time.Hour))
		var delivers atomic.Bool
		stop := runIn(t, r, signals.SourceFunc[string](func(ctx context.Context, sink signals.Sink[string]) error {
			sink.Subscribed(signals.Subscription{Every: time.Second, Limit: 3 * time.Second, Probe: func(_ context.Context, n uint64) error {
				if delivers.Load() {
					sink.Heard(n)
				}
				return nil
			}})
			<-ctx.Done()
			return context.Cause(ctx)
		}))
		time.Sleep(10 * time.Hour)
		delivers.Store(true)
		time.Sleep(2 * time.Hour)
		require.True(t, r.Stats().Standing)
		ends := r.Stats().Ends
		delivers.Store(false)
		time.Sleep(3 * time.Second)
		assert.False(t, r.Stats().Standing)
		delivers.Store(true)
		time.Sleep(2 * time.Second)
		assert.True(t, r.Stats().Standing)
		assert.Equal(t, ends+1, r.Stats().Ends)
		stop()
	})
}

// What a connection still says when its source has ended does nothing to the next source: it neither ends nor stands
// by it, and what has changed meanwhile is found when it stands, without another event.
func TestAnOldConnectionSaysNothingOfTheNextSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open(t)
		r, err := signals.To(p, signals.WithLag(0), signals.WithAudit(0), signals.WithBackoff(time.Second, time.Second))
		require.NoError(t, err)
		var probes []uint64 // of the first source
		m := newMirror()
		runs := 0
		stop := runIn(t, r, signals.SourceFunc[string](func(ctx context.Context, sink signals.Sink[string]) error {
			s := m.subscription()
			s.Limit = time.Hour
			if runs++; runs == 1 {
				s.Probe = func(ctx context.Context, n uint64) error {
					if probes = append(probes, n); len(probes) == 1 {
						sink.Heard(n)
						return nil
					}
					<-ctx.Done()
					time.Sleep(10 * time.Second) // the connection ends slowly
					return errBroken
				}
				sink.Subscribed(s)
				time.Sleep(1500 * time.Millisecond)
				return errBroken
			}
			sink.Subscribed(s)
			<-ctx.Done()
			return context.Cause(ctx)
		}))
		var state atomic.Bool
		answered := make(chan error, 1)
		go func() { answered <- p.Await(t.Context(), time.Hour, state.Load, "a") }()
		time.Sleep(time.Second)
		require.True(t, r.Stats().Standing)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Equal(t, 2, runs)
		require.Len(t, probes, 2, "the second is under way")
		r.Heard(probes[1])
		r.Missed(errBroken)
		r.Changed("a", signals.Unknown)
		synctest.Wait()
		assert.False(t, r.Stats().Standing)
		rechecks := r.Stats().Rechecks
		state.Store(true) // its hint goes to nobody
		time.Sleep(10 * time.Second)
		synctest.Wait()
		assert.EqualValues(t, 1, r.Stats().Ends, "the probe that fails is of the first source")
		assert.False(t, r.Stats().Standing)
		assert.Equal(t, rechecks, r.Stats().Rechecks)
		assert.Empty(t, answered)
		r.Heard(m.last())
		synctest.Wait()
		assert.True(t, r.Stats().Standing)
		assert.Len(t, answered, 1)
		require.NoError(t, <-answered)
		stop()
		require.NoError(t, p.Close())
	})
}

// A probe of the subscription before, which fails late, does not end the one that stands now.
func TestAProbeOfTheSubscriptionBeforeEndsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := alone(t)
		probes, broken := 0, make(chan struct{})
		stop := runIn(t, r, signals.SourceFunc[string](func(ctx context.Context, sink signals.Sink[string]) error {
			s := signals.Subscription{Every: time.Second, Limit: 5 * time.Second, Probe: func(_ context.Context, n uint64) error {
				if probes++; probes == 2 {
					<-broken
					return errBroken
				}
				sink.Heard(n)
				return nil
			}}
			sink.Subscribed(s)
			time.Sleep(1500 * time.Millisecond)
			sink.Subscribed(s)
			close(broken)
			<-ctx.Done()
			return context.Cause(ctx)
		}))
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Greater(t, probes, 10)
		assert.Zero(t, r.Stats().Ends)
		assert.True(t, r.Stats().Standing)
		stop()
	})
}

// While no source runs nothing stands, whoever says that hints were lost, and the pauses go on growing.
func TestAGapWithoutASourceIsNoSubscription(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := alone(t, signals.WithBackoff(10*time.Second, time.Hour))
		ends := 0
		var ended, again time.Time
		stop := runIn(t, r, script(
			func(signals.Sink[string]) error { ends++; return errBroken },
			func(sink signals.Sink[string]) error { return stands(sink) },
			func(signals.Sink[string]) error { ends, ended = ends+1, time.Now(); return errBroken },
			func(signals.Sink[string]) error { again = time.Now(); return nil }))
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, 1, ends)
		r.Missed(errBroken)
		synctest.Wait()
		assert.False(t, r.Stats().Standing, "no source has subscribed")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.Equal(t, 2, ends)
		r.Missed(errBroken)
		synctest.Wait()
		assert.False(t, r.Stats().Standing, "the source has ended")
		assert.EqualValues(t, 1, r.Stats().Gaps)
		assert.EqualValues(t, 3, r.Stats().Rechecks)
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.GreaterOrEqual(t, again.Sub(ended), 10*time.Second, "half of the second pause")
		stop()
	})
}

// A Probe that panics, or ends its goroutine, is one that cannot send: it ends the source, and not the program.
func TestAProbeThatPanicsEndsTheSource(t *testing.T) {
	for name, c := range map[string]struct {
		probe func()
		says  string
	}{
		"panic":  {func() { panic("no words") }, "panic: no words"},
		"Goexit": {runtime.Goexit, "runtime.Goexit"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := alone(t, signals.WithBackoff(time.Hour, time.Hour))
				probes := 0
				stop := runIn(t, r, signals.SourceFunc[string](func(ctx context.Context, sink signals.Sink[string]) error {
					sink.Subscribed(signals.Subscription{Every: time.Second, Limit: 5 * time.Second, Probe: func(_ context.Context, n uint64) error {
						if probes++; probes == 3 {
							c.probe()
						}
						sink.Heard(n)
						return nil
					}})
					<-ctx.Done()
					return context.Cause(ctx)
				}))
				time.Sleep(time.Minute)
				assert.EqualValues(t, 1, r.Stats().Ends)
				assert.ErrorIs(t, r.Stats().Err, signals.ErrDeaf)
				assert.ErrorContains(t, r.Stats().Err, c.says)
				time.Sleep(time.Hour)
				assert.True(t, r.Stats().Standing, "it is run again")
				stop()
			})
		})
	}
}

// The connection breaks while a probe hangs in it, and the source subscribes again at once.
func TestAProbeThatHangsHoldsUpNoLaterSubscription(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := alone(t)
		stop := runIn(t, r, signals.SourceFunc[string](func(ctx context.Context, sink signals.Sink[string]) error {
			hangs := make(chan struct{})
			sink.Subscribed(signals.Subscription{Every: time.Minute, Limit: time.Hour, Probe: func(ctx context.Context, _ uint64) error {
				close(hangs)
				<-ctx.Done()
				return ctx.Err()
			}})
			<-hangs
			sink.Subscribed(signals.Subscription{Every: time.Second, Limit: 2 * time.Second, Probe: func(_ context.Context, n uint64) error {
				sink.Heard(n)
				return nil
			}})
			<-ctx.Done()
			return context.Cause(ctx)
		}))
		synctest.Wait()
		assert.True(t, r.Stats().Standing)
		time.Sleep(time.Hour)
		assert.True(t, r.Stats().Standing)
		assert.Zero(t, r.Stats().Ends)
		stop()
	})
}
