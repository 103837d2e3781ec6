package purgatory_test

import (
	"log/slog"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// Tests of purgatories that are made outside of a synctest bubble, as variables of a package are, and used inside. Nothing that one keeps
// for later may cross the border, neither a goroutine nor a channel: that would end the program, or hang it (golang/go 73648).

// ofThePackage is a purgatory as the doc of Must shows it. Its reaper runs until the tests end.
var ofThePackage = purgatory.Must(purgatory.New[string]("package", purgatory.WithoutReaper()))

const madeOutside = "a timer.SystemTimer, or a purgatory with one, that was made outside of a bubble of testing/synctest is used inside, or the other way round: make it where it is used"

// Whoever registers or extends an operation inside is told so at once, with nothing lost, and whatever the purgatory was used for before.
func TestARegistrationInABubbleSaysThatThePurgatoryWasMadeOutside(t *testing.T) {
	for name, register := range map[string]func(t *testing.T, p *stringPurgatory, o, outside *op){
		"TryCompleteElseWatch": func(_ *testing.T, p *stringPurgatory, o, _ *op) {
			_, _ = p.TryCompleteElseWatch(o, hour, "a")
		},
		"without a timeout": func(_ *testing.T, p *stringPurgatory, o, _ *op) {
			_, _ = p.TryCompleteElseWatch(o, purgatory.NoTimeout, "a")
		},
		"Await":     func(t *testing.T, p *stringPurgatory, o, _ *op) { _ = p.Await(t.Context(), hour, o.TryComplete, "a") },
		"StartWait": func(_ *testing.T, p *stringPurgatory, o, _ *op) { _, _ = p.StartWait(hour, o.TryComplete, "a") },
		"Extend":    func(_ *testing.T, p *stringPurgatory, _, outside *op) { p.Extend(outside, hour) },
	} {
		for _, used := range []bool{false, true} {
			if !used && name == "Extend" {
				continue
			}
			t.Run(name, func(t *testing.T) {
				var told panics
				p := open[string](t, purgatory.WithMaxPending(1), told.option())
				outside := &op{}
				if used {
					submit(t, p, outside, hour, "a")
					if name != "Extend" {
						p.ForceComplete(outside)
					}
				}
				o := &op{}
				synctest.Test(t, func(t *testing.T) {
					assert.PanicsWithError(t, madeOutside, func() { register(t, p, o, outside) })
				})
				pending(t, o)
				assert.Zero(t, p.Stats().Panics, "it is no panic of a TryComplete")
				p.CheckAndComplete("a")
				p.ForceComplete(outside)
				eventually(t, p.AtRest, "nothing goes on")
				assert.Zero(t, p.NumDelayed())
				submit(t, p, &op{}, hour, "a") // the place is free
				require.NoError(t, p.Close())
				require.NoError(t, p.Shutdown(aWhile(t)))
			})
		}
	}
}

// The verbs that end operations work from inside, on what was registered outside, in turn with those from outside: those that need a worker,
// too.
func TestTheOtherVerbsWorkFromBothSidesOfABubble(t *testing.T) {
	for name, verb := range map[string]struct {
		end     func(p *stringPurgatory, o *op)
		outcome operation.Outcome
	}{
		"check":        {func(p *stringPurgatory, _ *op) { assert.Equal(t, 1, p.CheckAndComplete("a")) }, operation.Satisfied},
		"signal":       {func(p *stringPurgatory, _ *op) { p.Signal("a") }, operation.Satisfied},
		"CancelForKey": {func(p *stringPurgatory, _ *op) { assert.Equal(t, 1, p.CancelForKey("a", errGone)) }, operation.Cancelled},
		"Cancel":       {func(p *stringPurgatory, o *op) { assert.True(t, p.Cancel(o, errGone)) }, operation.Cancelled},
		"force":        {func(p *stringPurgatory, o *op) { assert.True(t, p.ForceComplete(o)) }, operation.Forced},
	} {
		t.Run(name, func(t *testing.T) {
			for _, p := range []*stringPurgatory{
				open[string](t), open[string](t, purgatory.WithDiagnostics(), purgatory.WithLogger(slog.New(slog.DiscardHandler))), onManualClock[string](t), ofThePackage,
			} {
				one := func() func(t *testing.T) {
					var met atomic.Bool
					o := until(&met)
					submit(t, p, o, purgatory.NoTimeout, "a")
					met.Store(true)
					return func(t *testing.T) {
						verb.end(p, o)
						endsSoon(t, o, verb.outcome) // by a worker, on either side
						_, _, _ = p.NumDelayed(), p.Watched(), p.Waiting("a")
					}
				}
				for range 5 {
					synctest.Test(t, one()) // no worker may linger inside
					eventually(t, p.AtRest, "the worker has ended, and the next one begins in the bubble")
					synctest.Test(t, one())
					one()(t)
				}
			}
		})
	}
}

// A purgatory is closed inside, and was used outside: everybody is answered.
func TestAPurgatoryFromOutsideIsClosedInABubble(t *testing.T) {
	p := open[string](t)
	o := submitted(t, p, "a")
	synctest.Test(t, func(*testing.T) { _ = p.Close() })
	ended(t, o, operation.Closed)
	require.NoError(t, p.Shutdown(aWhile(t)))
}

// With a manual timer a purgatory from outside does everything inside, in turn with outside: its clock is on neither side.
func TestAManualPurgatoryIsUsedOnBothSidesOfABubble(t *testing.T) {
	p := onManualClock[string](t)
	use := func(t *testing.T) {
		var met atomic.Bool
		wait := inBackground(func() { assert.NoError(t, p.Await(t.Context(), hour, met.Load, "a")) })
		for p.NumDelayed() == 0 {
			runtime.Gosched()
		}
		met.Store(true)
		p.Signal("a") // a worker ends the wait
		wait()
		w, err := p.StartWait(hour, func() bool { return false }, "a")
		require.NoError(t, err)
		p.AdvanceClock(hour)
		<-w.Done()
		require.ErrorIs(t, w.Err(), purgatory.ErrExpired)
		o := submitted(t, p, "a")
		assert.True(t, p.Extend(o, 2*hour))
		assert.Equal(t, 1, p.CancelForKey("a", nil))
		ended(t, o, operation.Cancelled)
	}
	for range 20 {
		use(t)
		eventually(t, p.AtRest, "no worker works: it would take what is signalled in the bubble")
		synctest.Test(t, use)
	}
}

// A purgatory that is made inside works there as anywhere, at whatever time the bubble is.
func TestAPurgatoryThatIsMadeInABubbleIsUsedThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(40 * 365 * 24 * time.Hour) // the bubble's time has begun in the year 2000
		p := purgatory.Must(purgatory.New[string]("test"))
		began := time.Now()
		require.ErrorIs(t, p.Await(t.Context(), hour, func() bool { return false }, "a"), purgatory.ErrExpired)
		assert.Equal(t, hour, time.Since(began).Truncate(10*time.Millisecond))
		o := submitted(t, p, "a")
		o.try = func() bool { return true }
		p.Signal("a")
		synctest.Wait()
		ended(t, o, operation.Satisfied)
		require.NoError(t, p.Shutdown(t.Context()))
	})
}

// A purgatory without a reaper needs no Close, in a bubble either: no worker stays when its work is done.
func TestAPurgatoryWithoutAReaperNeedsNoCloseInABubble(t *testing.T) {
	for name, opts := range map[string][]purgatory.Option{"none was started": nil, "WithoutReaper": {purgatory.WithoutReaper()}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := purgatory.Must(purgatory.New[string]("test", opts...))
				var met atomic.Bool
				o := until(&met)
				submit(t, p, o, purgatory.NoTimeout, "a")
				met.Store(true)
				p.Signal("a")
				synctest.Wait()
				ended(t, o, operation.Satisfied)
			})
		})
	}
}
