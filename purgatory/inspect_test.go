package purgatory_test

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// What Inspect and Stats say of operations that wait, that block, and that have expired.

func TestInspectShowsTheOldest(t *testing.T) {
	p := onManualClock[string](t)
	for i := range 10 {
		submit(t, p, &op{}, time.Hour, fmt.Sprint("key ", i), "everybody")
		p.AdvanceClock(time.Minute)
	}
	in := p.Inspect(2)
	assert.Equal(t, 20, in.Looked, "each operation under each of its keys")
	require.Len(t, in.Oldest, 2)
	for i, o := range in.Oldest {
		age := time.Duration(10-i) * time.Minute
		assert.Contains(t, []string{"everybody", fmt.Sprint("key ", i)}, o.Key)
		o.Key = ""
		assert.Equal(t, purgatory.OperationReport{Type: "*purgatory_test.op", Age: age, Left: time.Hour - age}, o)
	}
	assert.Empty(t, append(p.Inspect(0).Oldest, p.Inspect(-1).Oldest...))
	assert.Len(t, p.Inspect(math.MaxInt).Oldest, 10, "each once")
	assert.Equal(t, []any{"everybody", 10}, []any{in.Busiest, in.Waiting})
	p.CancelForKey("everybody", nil)
	assert.Equal(t, purgatory.Inspection{}, p.Inspect(9))

	_, err := p.StartWait(purgatory.NoTimeout, func() bool { return false }, "a")
	require.NoError(t, err)
	submit(t, p, &op{}, purgatory.NoTimeout-1, "a") // that is beyond the end of the clock
	for i, o := range p.Inspect(2).Oldest {
		assert.Equal(t, []any{[]string{"*purgatory.await", "*purgatory_test.op"}[i], purgatory.NoTimeout}, []any{o.Type, o.Left})
	}
}

func TestInspectShowsAnOperationInItsSecondTry(t *testing.T) {
	p := onManualClock[string](t)
	var shown [][]purgatory.OperationReport
	o := &op{try: func() bool { shown = append(shown, p.Inspect(9).Oldest); return false }}
	submit(t, p, o, time.Minute, "a")
	require.Len(t, shown, 2)
	assert.Empty(t, shown[0], "it does not wait yet")
	require.Len(t, shown[1], 1)
	assert.Equal(t, time.Minute, shown[1][0].Left)
}

// Of each key, an inspection looks at those that stand first: of many keys too, where it keeps a sample only.
func TestAnInspectionFindsTheOldestOfManyKeys(t *testing.T) {
	p := onManualClock[int](t)
	const keys, crowd, n = 3 * purgatory.Sampling, 100, 20
	var want, got []string
	for key := range keys {
		atPosition(t, p, &op{}, key, 7)
		if key < n {
			want = append(want, fmt.Sprint(key))
			p.AdvanceClock(time.Second)
		}
	}
	for range crowd {
		submit(t, p, &op{}, hour, -1)
	}
	in := p.Inspect(n)
	for _, o := range in.Oldest {
		got = append(got, o.Key)
	}
	assert.Equal(t, want, got)
	assert.Equal(t, []any{keys + 1, "-1", crowd}, []any{in.Looked, in.Busiest, in.Waiting})
}

// talkative has a String method that must not be called.
type talkative struct {
	op
	t *testing.T
}

func (o *talkative) String() string { o.t.Error("String was called"); return "" }

// spoken is a key that is formatted by say.
type spoken struct {
	n   int
	say *func() string
}

func (s spoken) String() string { return (*s.say)() }

// Inspect and the records call no method of an operation. They format keys with no lock held, cut them off, and survive what a key's
// String does.
func TestReportsFormatKeysAndNoOperation(t *testing.T) {
	var say func() string
	log := &records{}
	p := onManualClock[spoken](t, purgatory.WithLogger(slog.New(log)), purgatory.WithPanicHandler(func(any, []byte) {}))
	key := spoken{1, &say}
	for name, c := range map[string]struct {
		say  func() string
		want string
	}{
		"calls":  {func() string { p.CheckAndComplete(key); p.Stats(); p.Signal(key); return "called" }, "called"},
		"long":   {func() string { return strings.Repeat("x", 199) + "€" }, strings.Repeat("x", 199) + "…"},
		"longer": {func() string { return strings.Repeat("é", 5000) + "\xff" }, strings.Repeat("é", 100) + "…"},
	} {
		t.Run(name, func(t *testing.T) {
			say = c.say
			o := &talkative{t: t}
			o.complete = func() { panic("of the user's") }
			submit(t, p, o, hour, key)
			in := p.Inspect(1)
			require.Len(t, in.Oldest, 1)
			assert.Equal(t, []string{c.want, c.want}, []string{in.Oldest[0].Key, in.Busiest})
			p.ForceComplete(o) // or a worker of the signal does, if it tries o at this moment
			eventually(t, p.Idle, "the worker of the signal")
			eventually(t, func() bool { return len(log.find(purgatory.EventPanic)) > 0 }, "the record")
			assert.Equal(t, c.want, log.find(purgatory.EventPanic)[0]["key"])
			log.all = nil
		})
	}
}

// A row is of an operation that waits when its turn comes. Here a key's String ends it.
func TestAnInspectionLeavesOutWhatEndsMeanwhile(t *testing.T) {
	o, p := &op{}, onManualClock[spoken](t)
	say := func() string { p.ForceComplete(o); return "" }
	submit(t, p, o, hour, spoken{1, &say})
	assert.Empty(t, p.Inspect(1).Oldest)
}

// An operation that expires is unchecked if no check has come to it, or is about to: whoever else is checked, or ends. The other ones
// are those whose condition was never true.
func TestAnExpiryIsUncheckedIfNoCheckHasComeToIt(t *testing.T) {
	never := func() bool { return false }
	for name, c := range map[string]struct {
		before    func(p *stringPurgatory)
		try       func(p *stringPurgatory, o *op)
		while     func(t *testing.T, p *stringPurgatory, o *op, w *purgatory.HeldWorkers)
		unchecked bool
		checks    int64
	}{
		"nobody checks":             {unchecked: true},
		"a check":                   {while: func(_ *testing.T, p *stringPurgatory, _ *op, _ *purgatory.HeldWorkers) { p.CheckAndComplete("a") }, checks: 1},
		"a check of its second key": {while: func(_ *testing.T, p *stringPurgatory, _ *op, _ *purgatory.HeldWorkers) { p.CheckAndComplete("b") }},
		"a check of its position": {while: func(_ *testing.T, p *stringPurgatory, _ *op, _ *purgatory.HeldWorkers) {
			p.CheckAndCompleteUpTo("a", 7)
		}, checks: 1},
		"a check of a lower one": {while: func(_ *testing.T, p *stringPurgatory, _ *op, _ *purgatory.HeldWorkers) {
			p.CheckAndCompleteUpTo("a", 6)
		}, unchecked: true, checks: 1},
		"a check of another key":  {while: func(_ *testing.T, p *stringPurgatory, _ *op, _ *purgatory.HeldWorkers) { p.CheckAndComplete("c") }, unchecked: true},
		"a check before it waits": {before: func(p *stringPurgatory) { p.CheckAndComplete("a") }, unchecked: true},
		"a check during its try":  {try: func(p *stringPurgatory, o *op) { p.CheckAndComplete("b") }},
		"a signal":                {while: func(_ *testing.T, p *stringPurgatory, _ *op, w *purgatory.HeldWorkers) { p.Signal("a"); w.Work() }, checks: 1},
		"a signal that waits":     {while: func(_ *testing.T, p *stringPurgatory, _ *op, _ *purgatory.HeldWorkers) { p.Signal("a") }},
		"a heartbeat":             {while: func(_ *testing.T, p *stringPurgatory, o *op, _ *purgatory.HeldWorkers) { p.Extend(o, time.Second) }, unchecked: true},
		"others are met, and leave": {while: func(t *testing.T, p *stringPurgatory, _ *op, _ *purgatory.HeldWorkers) {
			require.NoError(t, p.Await(t.Context(), hour, func() bool { return true }, "a"))
			w, err := p.StartWait(hour, never, "a")
			require.NoError(t, err)
			require.True(t, w.Stop())
		}, unchecked: true},
		"others are checked before": {before: func(p *stringPurgatory) {
			w, _ := p.StartWait(hour, never, "a")
			p.CheckAndComplete("a")
			w.Stop()
		}, unchecked: true},
	} {
		t.Run(name, func(t *testing.T) {
			log := &records{}
			p := onManualClock[string](t, purgatory.WithLogger(slog.New(log)))
			held := purgatory.HoldWorkers(t, p)
			if c.before != nil {
				c.before(p)
			}
			o := &op{}
			o.try = func() bool {
				if c.try != nil && o.tries.Load() == 2 {
					c.try(p, o)
				}
				return false
			}
			_, err := p.TryCompleteElseWatchAt(o, time.Second, purgatory.KeyPosition[string]{Key: "a", Position: 7}, purgatory.KeyPosition[string]{Key: "b", Position: 7})
			require.NoError(t, err)
			if c.while != nil {
				c.while(t, p, o, held)
			}
			p.AdvanceClock(time.Second)
			ended(t, o, operation.Expired)
			held.Release()
			eventually(t, p.Idle, "the worker")
			in, report := p.Inspect(1), purgatory.ExpiryReport{Type: "*purgatory_test.op", Key: "a", Age: time.Second, Checks: c.checks}
			if !c.unchecked {
				assert.Zero(t, p.Stats().Unchecked)
				assert.Equal(t, [][]purgatory.ExpiryReport{nil, {report}}, [][]purgatory.ExpiryReport{in.Unchecked, in.NeverTrue})
				assert.Empty(t, log.find(purgatory.EventUnchecked))
				return
			}
			assert.EqualValues(t, 1, p.Stats().Unchecked)
			assert.Equal(t, [][]purgatory.ExpiryReport{{report}, nil}, [][]purgatory.ExpiryReport{in.Unchecked, in.NeverTrue})
			eventually(t, func() bool { return len(log.find(purgatory.EventUnchecked)) == 1 }, "the record")
			assert.Equal(t, map[string]any{
				"level": slog.LevelWarn, "purgatory": "test", "operation": "*purgatory_test.op", "key": "a", "age": time.Second,
			}, log.find(purgatory.EventUnchecked)[0])
		})
	}
}

// A check that a condition of another operation blocks has not come to those behind it: it is about to.
func TestAnExpiryBesideABlockedCheckIsNotUnchecked(t *testing.T) {
	p := onManualClock[string](t)
	first := newHeldOp()
	submit(t, p, first, hour, "a")
	o := &op{}
	submit(t, p, o, time.Second, "a")
	proceed := first.holdInCheck(p, "a")
	p.AdvanceClock(time.Second)
	ended(t, o, operation.Expired)
	assert.Zero(t, p.Stats().Unchecked)
	proceed(true)
}

// Checks race with timeouts: of an operation that a check has tried nobody says that it was unchecked.
func TestNoRaceMakesACheckedExpiryUnchecked(t *testing.T) {
	p := open[int](t, purgatory.WithTick(50*time.Microsecond), purgatory.WithWatcherShards(1))
	var stop atomic.Bool
	wait := inBackground(func() {
		for !stop.Load() {
			p.CheckAndComplete(1)
		}
	})
	var ops []*op
	for i := range howMany(4000, 1000) {
		o := &op{}
		ops = append(ops, o)
		submit(t, p, o, time.Duration(1+i%8)*50*time.Microsecond, 1)
	}
	eventually(t, func() bool { return p.NumDelayed() == 0 }, "all expire")
	stop.Store(true)
	wait()
	untried := 0
	for _, o := range ops {
		if o.tries.Load() == 2 { // by its registration
			untried++
		}
	}
	assert.LessOrEqual(t, p.Stats().Unchecked, int64(untried))
}

// Only expiries count: neither another end, nor a wait that may not wait.
func TestOnlyExpiriesAreUnchecked(t *testing.T) {
	p := onManualClock[string](t)
	require.True(t, p.ForceComplete(submitted(t, p, "a")))
	require.True(t, p.Cancel(submitted(t, p, "a"), nil))
	submitted(t, p, "a")
	require.Equal(t, 1, p.CancelForKey("a", nil))
	require.ErrorIs(t, p.Await(t.Context(), 0, func() bool { return false }, "a"), purgatory.ErrExpired)
	submitted(t, p, "a")
	require.NoError(t, p.Close())
	in := p.Inspect(9)
	assert.Zero(t, p.Stats().Unchecked+int64(len(in.Unchecked)+len(in.NeverTrue)))
}

// Who expects timeouts is not warned of them.
func TestTimeoutsThatAreExpectedAreNotLogged(t *testing.T) {
	log := &records{}
	p := onManualClock[string](t, purgatory.WithLogger(slog.New(log)), purgatory.WithTimeoutsExpected())
	submit(t, p, &op{}, time.Second, "a")
	p.AdvanceClock(time.Second)
	assert.True(t, p.Stats().TimeoutsExpected)
	assert.False(t, open[string](t).Stats().TimeoutsExpected)
	require.NoError(t, p.Shutdown(t.Context())) // which waits for the log
	assert.Empty(t, log.find(purgatory.EventUnchecked))
}

// Inspect names some keys whose operations have expired, each kind apart and the latest first, with how often the key was checked.
func TestInspectNamesKeysThatExpiredLately(t *testing.T) {
	p := onManualClock[string](t)
	for i := range 40 {
		key := fmt.Sprint("key ", i)
		submit(t, p, &op{}, time.Second, key)
		for range i % 2 * i {
			p.CheckAndComplete(key)
		}
		p.AdvanceClock(time.Second)
		in := p.Inspect(0)
		for checked, reports := range [][]purgatory.ExpiryReport{in.Unchecked, in.NeverTrue} {
			before := i + 1
			for n, r := range reports {
				var expired int
				_, err := fmt.Sscanf(r.Key, "key %d", &expired)
				require.NoError(t, err)
				assert.Equal(t, []any{checked, int64(checked * expired)}, []any{expired % 2, r.Checks})
				assert.Less(t, expired, before)
				before = expired
				assert.True(t, n > 0 || expired >= i-1, "the latest is there")
			}
		}
	}
	assert.Greater(t, len(p.Inspect(0).Unchecked), 1)
}

// A wait whose context ends has given up, and an operation that is cancelled with an error of package context; nobody else has.
func TestWaitsThatTheirContextsEndAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open[string](t)
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errGone)
		defer cancel()
		never := func() bool { return false }
		require.ErrorIs(t, p.Await(ctx, hour, never, "a"), errGone)
		require.ErrorIs(t, p.Await(ctx, hour, never, "a"), errGone, "it had ended before")
		require.ErrorIs(t, p.Await(t.Context(), time.Second, never, "a"), purgatory.ErrExpired)
		go func() { time.Sleep(time.Second); p.CancelForKey("a", nil) }()
		require.ErrorIs(t, p.Await(t.Context(), hour, never, "a"), purgatory.ErrCancelled)
		s := p.Stats()
		assert.Equal(t, []int64{2, 1, 2}, []int64{s.GaveUp, s.PassedOver, s.Cancelled})
		for cause, gaveUp := range map[error]int64{context.Canceled: 1, context.DeadlineExceeded: 1, errGone: 0, nil: 0} {
			before := p.Stats().GaveUp
			o := submitted(t, p, "a")
			require.True(t, p.Cancel(o, cause))
			require.False(t, p.Cancel(o, cause))
			own := &op{}
			own.try = func() bool { return !p.Cancel(own, cause) }
			_, err := p.TryCompleteElseWatch(own, hour, "a")
			require.NoError(t, err)
			submitted(t, p, "b")
			require.Equal(t, 1, p.CancelForKey("b", cause))
			assert.Equal(t, gaveUp, p.Stats().GaveUp-before, cause)
		}
		require.NoError(t, p.Shutdown(t.Context()))
	})
}

// Whatever method blocks, on whichever goroutine: Stats says for how long, Inspect of which type and key, and so does the log.
func TestAMethodThatBlocksIsNamedWithItsTypeAndKey(t *testing.T) {
	for name, c := range map[string]struct {
		begin func(p *stringPurgatory, o *op, block func())
	}{
		"TryComplete in a check": {func(p *stringPurgatory, o *op, block func()) {
			o.try = func() bool { block(); return true }
			go p.CheckAndComplete("a")
		}},
		"OnComplete after a check": {func(p *stringPurgatory, o *op, block func()) {
			o.try, o.complete = func() bool { return true }, block
			go p.CheckAndComplete("a")
		}},
		"OnComplete on a worker": {func(p *stringPurgatory, o *op, block func()) {
			o.try, o.complete = func() bool { return true }, block
			p.Signal("a")
		}},
		"OnComplete of a cancellation": {func(p *stringPurgatory, o *op, block func()) { o.complete = block; go p.Cancel(o, nil) }},
		"OnExpiration":                 {func(p *stringPurgatory, o *op, block func()) { o.expire = block; p.Extend(o, 0) }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := &records{}
				p := open[string](t, purgatory.WithLogger(slog.New(log)))
				leave := make(chan struct{})
				o := submitted(t, p, "a")
				assert.Equal(t, []any{time.Duration(0), 0}, []any{p.Stats().BlockedFor, len(p.Inspect(0).Blocked)})
				c.begin(p, o, func() { <-leave })
				time.Sleep(purgatory.StuckAfter - time.Millisecond)
				synctest.Wait()
				assert.Empty(t, log.find(purgatory.EventStuck), "others take as long")
				time.Sleep(time.Minute)
				synctest.Wait()
				in, s := p.Inspect(0), p.Stats()
				require.Len(t, in.Blocked, 1)
				assert.Equal(t, []any{"*purgatory_test.op", "a"}, []any{in.Blocked[0].Type, in.Blocked[0].Key})
				assert.GreaterOrEqual(t, s.BlockedFor, time.Minute)
				assert.EqualValues(t, 1, s.Running)
				found := log.find(purgatory.EventStuck)
				require.NotEmpty(t, found)
				assert.LessOrEqual(t, len(found), 6, "after 2 s, 4 s, 8 s and so on")
				assert.Equal(t, []any{slog.LevelWarn, "*purgatory_test.op", "a"}, []any{found[0]["level"], found[0]["operation"], found[0]["key"]})
				assert.GreaterOrEqual(t, found[0]["elapsed"], purgatory.StuckAfter)
				close(leave)
				synctest.Wait()
				assert.Equal(t, []any{time.Duration(0), 0}, []any{p.Stats().BlockedFor, len(p.Inspect(0).Blocked)})
				require.NoError(t, p.Shutdown(t.Context()))
			})
		})
	}
}
