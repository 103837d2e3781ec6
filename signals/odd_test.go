package signals_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/signals"
)

// oddUser is what a function of the user's may do with the keys that it was given, and otherwise.
type oddUser func(ctx context.Context, r *signals.Runner[string], p *purgatory.Purgatory[string], keys []string) error

var oddUsers = map[string]oddUser{
	"appends": func(_ context.Context, _ *signals.Runner[string], _ *purgatory.Purgatory[string], keys []string) error {
		_ = append(keys, "appended")
		return nil
	},
	"changes": func(_ context.Context, _ *signals.Runner[string], _ *purgatory.Purgatory[string], keys []string) error {
		clear(keys)
		return nil
	},
	"changes and fails": func(_ context.Context, _ *signals.Runner[string], _ *purgatory.Purgatory[string], keys []string) error {
		clear(keys)
		return errBroken
	},
	"panics halfway": func(_ context.Context, _ *signals.Runner[string], _ *purgatory.Purgatory[string], keys []string) error {
		clear(keys[:len(keys)/2])
		panic("halfway")
	},
	"panics with an error": func(context.Context, *signals.Runner[string], *purgatory.Purgatory[string], []string) error {
		panic(errBroken)
	},
	"ends its goroutine": func(context.Context, *signals.Runner[string], *purgatory.Purgatory[string], []string) error {
		runtime.Goexit()
		return nil
	},
	"calls back": func(_ context.Context, r *signals.Runner[string], p *purgatory.Purgatory[string], keys []string) error {
		r.Changed(keys[0], signals.Unknown)
		r.Saw(keys[0], 1)
		r.Stats()
		for range p.Keys() {
			break
		}
		return nil
	},
	"names keys that it was not given": func(context.Context, *signals.Runner[string], *purgatory.Purgatory[string], []string) error {
		return signals.UnreadError[string]{"a stranger": errBroken}
	},
	"returns late": func(ctx context.Context, _ *signals.Runner[string], _ *purgatory.Purgatory[string], keys []string) error {
		<-ctx.Done()
		time.Sleep(time.Minute)
		clear(keys)
		return nil
	},
}

// Whatever a bulk read does with the keys that it was given, everybody who waits is woken, once the state has changed. So it is in the
// re-check after a gap, and in the one that follows when reads have failed.
func TestABulkReadMayBeOdd(t *testing.T) {
	for name, odd := range oddUsers {
		for _, failed := range []int64{0, 3} { // bulk reads before
			t.Run(fmt.Sprintf("%s after %d failures", name, failed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					const waits = 2500
					p := open(t)
					var r *signals.Runner[string]
					var calls, woken atomic.Int64
					read := func(ctx context.Context, keys []string) error {
						n := calls.Add(1)
						if n <= failed {
							return errBroken
						}
						if n <= failed+3 {
							return odd(ctx, r, p, keys)
						}
						return nil
					}
					r, err := signals.To(p, signals.WithLag(0), signals.WithAudit(0), signals.WithSpread(0), signals.WithResync(read), signals.WithResyncLimit(time.Second))
					require.NoError(t, err)
					var state atomic.Bool
					for i := range waits {
						go func() {
							if p.Await(t.Context(), time.Hour, state.Load, fmt.Sprint("key", i)) == nil {
								woken.Add(1)
							}
						}()
					}
					synctest.Wait()
					state.Store(true)
					stop := runIn(t, r, script(stands))
					time.Sleep(10 * time.Minute)
					synctest.Wait()
					assert.EqualValues(t, waits, woken.Load())
					assert.GreaterOrEqual(t, calls.Load(), failed+1)
					stop()
					require.NoError(t, p.Close())
				})
			})
		}
	}
}

// A probe, or a source, that is odd ends its subscription at most: the source runs again, stands, and everybody is woken. (A panic of a
// source is that of Run.)
func TestAnOddSourceIsRunAgain(t *testing.T) {
	for name, odd := range map[string]func(r *signals.Runner[string]) error{
		"panics":               func(*signals.Runner[string]) error { panic("odd") },
		"panics with an error": func(*signals.Runner[string]) error { panic(errBroken) },
		"panics with nothing":  func(*signals.Runner[string]) error { panic(nil) },
		"ends its goroutine":   func(*signals.Runner[string]) error { runtime.Goexit(); return nil },
		"returns nothing":      func(*signals.Runner[string]) error { return nil },
		"fails":                func(*signals.Runner[string]) error { return errBroken },
		"runs itself again": func(r *signals.Runner[string]) error {
			err := r.Run(context.Background(), script(stands))
			if !errors.Is(err, signals.ErrRunning) {
				return fmt.Errorf("%w: %w", signals.ErrFinal, err)
			}
			return err
		},
	} {
		for _, where := range []string{"Run", "Probe"} {
			if where == "Run" && (strings.HasPrefix(name, "panics") || strings.HasPrefix(name, "ends")) {
				continue
			}
			t.Run(where+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p := open(t)
					r, err := signals.To(p, signals.WithLag(0), signals.WithAudit(0), signals.WithSpread(0))
					require.NoError(t, err)
					runs := 0
					source := signals.SourceFunc[string](func(ctx context.Context, sink signals.Sink[string]) error {
						runs++
						if where == "Run" && runs == 1 {
							return odd(r)
						}
						probe := func(_ context.Context, n uint64) error {
							if where == "Probe" && runs == 1 {
								if err := odd(r); err != nil {
									return err
								}
							}
							if runs > 1 {
								sink.Heard(n)
							}
							return nil
						}
						sink.Subscribed(signals.Subscription{Probe: probe, Every: time.Second, Limit: time.Minute})
						<-ctx.Done()
						return context.Cause(ctx)
					})
					var state atomic.Bool
					answer := make(chan error, 1)
					go func() { answer <- p.Await(t.Context(), time.Hour, state.Load, "a") }()
					synctest.Wait()
					state.Store(true)
					stop := runIn(t, r, source)
					time.Sleep(5 * time.Minute)
					synctest.Wait()
					assert.True(t, r.Stats().Standing)
					assert.Greater(t, runs, 1)
					select {
					case err := <-answer:
						assert.NoError(t, err)
					default:
						t.Error("nobody was woken")
					}
					stop()
					require.NoError(t, p.Close())
				})
			})
		}
	}
}
