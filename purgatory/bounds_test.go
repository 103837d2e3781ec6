package purgatory_test

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/timer"
)

// What goalert 48, cockroach 66017, nats-server 3099, pgbouncer 240 and vitess 17244 ask for. A busy key is full, and says so by its name. All others have room, and so has it once one of its operations has ended,
// however.
func TestABusyKeyDoesNotShutOutOthers(t *testing.T) {
	const most = 250
	for name, leave := range map[string]func(p *stringPurgatory, o *op){
		"satisfied": func(p *stringPurgatory, o *op) { o.try = func() bool { return true }; p.CheckAndComplete("busy") },
		"forced":    func(p *stringPurgatory, o *op) { p.ForceComplete(o) },
		"cancelled": func(p *stringPurgatory, o *op) { p.Cancel(o, nil) },
		"expired":   func(p *stringPurgatory, _ *op) { p.AdvanceClock(time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			p := onManualClock[string](t, purgatory.WithMaxPendingPerKey(most))
			first := &op{}
			submit(t, p, first, time.Minute, "busy")
			for range most - 1 {
				submitted(t, p, "busy")
			}
			_, err := p.TryCompleteElseWatch(&op{}, hour, "busy")
			require.ErrorIs(t, err, purgatory.ErrFull)
			require.EqualError(t, err, `purgatory "test": full: 250 operations wait for key busy`)
			require.ErrorIs(t, p.Await(t.Context(), hour, func() bool { return false }, "busy"), purgatory.ErrFull)
			_, err = p.StartWait(hour, func() bool { return false }, "busy")
			require.ErrorIs(t, err, purgatory.ErrFull)
			assert.Equal(t, most, p.Waiting("busy"))
			assert.EqualValues(t, 3, p.Stats().RejectedFull)
			assert.Equal(t, most, p.NumDelayed())
			assert.EqualValues(t, 1, p.Stats().Keys)

			submitted(t, p, "quiet")
			leave(p, first)
			submitted(t, p, "busy")
			assert.Equal(t, most, p.Waiting("busy"))
			assert.Equal(t, 1, p.Waiting("quiet"))
			conserved(t, p)
		})
	}
}

// An operation on several keys counts for each, and is refused for its first one only.
func TestTheBoundOfAKeyIsForTheFirst(t *testing.T) {
	p := onManualClock[string](t, purgatory.WithMaxPendingPerKey(2), purgatory.WithMaxPending(4))
	submitted(t, p, "a", "b")
	submitted(t, p, "a", "b")
	submitted(t, p, "c", "b")
	assert.Equal(t, 3, p.Waiting("b"))
	for _, keys := range [][]string{{"b"}, {"a", "c"}, {"b", "c"}} {
		_, err := p.TryCompleteElseWatch(&op{}, hour, keys...)
		require.ErrorIs(t, err, purgatory.ErrFull, "%v", keys)
	}
	assert.Equal(t, []int{2, 3, 1}, []int{p.Waiting("a"), p.Waiting("b"), p.Waiting("c")}, "a refused one leaves nothing")
	assert.Equal(t, 6, p.Watched())
	submitted(t, p, "c") // and takes no place of the purgatory's
	_, err := p.TryCompleteElseWatch(&op{}, hour, "d")
	require.ErrorIs(t, err, purgatory.ErrFull)
}

// Who is met at once does not wait: it is not refused, by whatever form it comes and whatever is full. One that has to wait is.
func TestFullIsForThoseWhoWait(t *testing.T) {
	const soon = 10 * time.Millisecond // for one that is not refused
	for bound, option := range map[string]purgatory.Option{
		"all": purgatory.WithMaxPending(1), "key": purgatory.WithMaxPendingPerKey(1), "timer": nil,
	} {
		for name, try := range map[string]func(p *stringPurgatory, ready func() bool) error{
			"operation": func(p *stringPurgatory, ready func() bool) error {
				_, err := p.TryCompleteElseWatch(&op{try: ready}, soon, "a")
				return err
			},
			"Await": func(p *stringPurgatory, ready func() bool) error { return p.Await(t.Context(), soon, ready, "a") },
			"AwaitAt": func(p *stringPurgatory, ready func() bool) error {
				return p.AwaitAt(t.Context(), soon, ready, purgatory.KeyPosition[string]{Key: "a", Position: 1})
			},
			"AwaitValue": func(p *stringPurgatory, ready func() bool) error {
				_, err := purgatory.AwaitValue(t.Context(), p, soon, func() (int, bool) { return 0, ready() }, "a")
				return err
			},
			"StartWait": func(p *stringPurgatory, ready func() bool) error {
				_, err := p.StartWait(soon, ready, "a")
				return err
			},
		} {
			t.Run(bound+", "+name, func(t *testing.T) {
				if option == nil {
					clock, err := timer.NewManualTimer(timer.WithMaxPending(1))
					require.NoError(t, err)
					option = purgatory.WithTimer(clock)
				}
				p := open[string](t, option)
				submitted(t, p, "a")
				require.NoError(t, try(p, func() bool { return true }))
				require.ErrorIs(t, try(p, func() bool { return false }), purgatory.ErrFull)
				s := conserved(t, p)
				assert.Equal(t, []int64{1, 1}, []int64{s.Pending, s.RejectedFull})
			})
		}
	}
}

// Another error of the timer is not that it is full.
func TestAStoppedTimerIsNotFull(t *testing.T) {
	shared, err := timer.NewSystemTimer()
	require.NoError(t, err)
	p := open[string](t, purgatory.WithTimer(shared))
	shared.Stop()
	_, err = p.TryCompleteElseWatch(&op{}, hour, "a")
	require.ErrorIs(t, err, purgatory.ErrClosed)
	require.ErrorIs(t, err, timer.ErrStopped)
	require.NotErrorIs(t, err, purgatory.ErrFull)
}

// While a callback blocks the only expiry worker, an operation whose timeout has passed is pending, and keeps its place, as the doc
// of WithMaxPending says. It gives it back when the worker is free.
func TestADueOperationKeepsItsPlaceUntilAWorkerIsFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open[string](t, purgatory.WithMaxPending(2), purgatory.WithWorkers(1))
		g := newGate()
		submit(t, p, &op{complete: g.pass}, time.Second, "a")
		due := &op{}
		submit(t, p, due, 2*time.Second, "a")
		time.Sleep(time.Minute)
		<-g.entered
		submitted(t, p, "b") // the place of the one that has ended, whose callback blocks
		_, err := p.TryCompleteElseWatch(&op{}, hour, "b")
		require.ErrorIs(t, err, purgatory.ErrFull)
		pending(t, due)
		close(g.leave)
		synctest.Wait()
		ended(t, due, operation.Expired)
		submitted(t, p, "b")
		require.NoError(t, p.Close())
	})
}

// An operation that keeps its place gives it back when its callbacks have returned, however it ended, also after a panic or a
// runtime.Goexit in one, and one that did not have to wait has none.
func TestAPlaceThatIsKeptIsFreeWhenTheAnswerIsWritten(t *testing.T) {
	full := func(t *testing.T, p *stringPurgatory) bool {
		t.Helper()
		o := &op{}
		_, err := p.TryCompleteElseWatch(o, hour, "other")
		p.Cancel(o, nil)
		if err != nil {
			require.ErrorIs(t, err, purgatory.ErrFull)
		}
		return err != nil
	}
	for name, end := range map[string]func(p *stringPurgatory, o *op){
		"checked":   func(p *stringPurgatory, o *op) { o.try = func() bool { return true }; p.CheckAndComplete("a") },
		"forced":    func(p *stringPurgatory, o *op) { p.ForceComplete(o) },
		"cancelled": func(p *stringPurgatory, _ *op) { p.CancelForKey("a", nil) },
		"expired":   func(p *stringPurgatory, _ *op) { p.AdvanceClock(2 * hour) },
	} {
		for after, leave := range map[string]func(){"returns": func() {}, "panics": func() { panic("of the user's") }, "exits": runtime.Goexit} {
			t.Run(name+", "+after, func(t *testing.T) {
				var told panics
				p := onManualClock[string](t, purgatory.WithMaxPending(1), purgatory.WithPlaceKept(), told.option())
				o := &op{complete: func() {
					assert.True(t, full(t, p), "while OnComplete runs")
					leave()
				}}
				submit(t, p, o, hour, "a")
				assert.True(t, full(t, p))
				inBackground(func() { end(p, o) })()
				require.EqualValues(t, 1, o.completed.Load())
				assert.False(t, full(t, p))
				assert.False(t, full(t, p), "a place that was taken is given back once")
				completed, err := p.TryCompleteElseWatch(&op{try: func() bool { return true }}, hour, "a")
				require.NoError(t, err)
				require.True(t, completed)
				submitted(t, p, "a")
				assert.True(t, full(t, p), "one that has not waited gives no place back")
			})
		}
	}
	_, err := purgatory.New[int]("test", purgatory.WithPlaceKept())
	require.ErrorIs(t, err, purgatory.ErrInvalidOption, "without a bound there is no place")
}
