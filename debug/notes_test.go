package debug

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/signals"
)

// day is what the notes are made from.
type day struct {
	n  purgatory.Stats
	w  window
	in purgatory.Inspection

	stalled bool
}

// expired has operations end in the last minute.
func (d *day) expired(n, of int64) {
	d.n.Expired, d.n.Checks, d.w.minute = n, 1, minute{time.Minute, of, n}
}

func minuteOf(t *testing.T) *day {
	t.Helper()
	d := &day{w: window{length: 2 * time.Minute}, in: purgatory.Inspection{Tick: time.Millisecond}}
	d.w.late = newFetches(t, purgatory.WithHistograms()).Stats().Late
	return d
}

// lateBy returns the bucket of the lateness d.
func (d *day) lateBy(late time.Duration) *int64 {
	for i := range d.w.late.Counts {
		if d.w.late.Bound(i) >= late {
			return &d.w.late.Counts[i]
		}
	}
	return nil
}

func onlyTimeouts(n int64) purgatory.KeyReport {
	k := purgatory.KeyReport{Key: "audit"}
	k.Ended[operation.Expired] = n
	return k
}

func TestASickDayHasItsNote(t *testing.T) {
	for _, c := range []struct {
		name  string
		make  func(d *day)
		level string // empty: no note
		text  string
	}{
		{"a callback does not return", func(d *day) { d.n.Running, d.n.OldestRunning = 2, 3*time.Second }, "trouble", "2 callbacks run, one for 3s"},
		{"callbacks run", func(d *day) { d.n.Running, d.n.OldestRunning = 2, 3*time.Millisecond }, "", ""},
		{"expiries wait", func(d *day) { d.n.Due, d.n.OldestDue = 38, 3*time.Second }, "trouble", "38 expired operations wait for a free worker, one for 3s"},
		{"one expiry waits", func(d *day) { d.n.Due, d.n.OldestDue = 1, 60*time.Millisecond }, "trouble", "1 expired operation waits"},
		{"an expiry waits for some ticks", func(d *day) { d.n.Due, d.n.OldestDue = 38, 20*time.Millisecond }, "", ""},
		{"an expiry waits for some long ticks", func(d *day) { d.n.Due, d.n.OldestDue, d.in.Tick = 38, time.Second, 100*time.Millisecond }, "", ""},
		{"many wait, nobody knows since when", func(d *day) { d.n.Due, d.w.due = 500, 70 }, "trouble", "≥ 500 expired operations wait for a free worker"},
		{"a crowd has just expired", func(d *day) { d.n.Due, d.w.due = 500, 0 }, "", ""},
		{"more wait than are counted", func(d *day) { d.n.Due, d.n.OldestDue = 128, 3*time.Second }, "trouble", "≥ 128 expired operations wait for a free worker, one for ≥ 3s"},
		{"all that wait are counted", func(d *day) { d.n.Due, d.n.OldestDue = 127, 3*time.Second }, "trouble", "127 expired operations wait for a free worker, one for 3s"},
		{"blocked, untimed", func(d *day) { d.n.Running, d.n.BlockedFor = 9, 4*time.Second }, "trouble", "9 callbacks run, and under some keys none has returned for 4s"},
		{"blocked for a moment", func(d *day) { d.n.Running, d.n.BlockedFor = 9, 2*time.Second }, "", ""},
		{"blocked, timed", func(d *day) {
			d.n.CallbacksTimed, d.n.Running, d.n.BlockedFor, d.n.OldestRunning = true, 9, 4*time.Second, 5*time.Second
		}, "trouble", "9 callbacks run, one for 5s"},
		{"one blocks beside others that return", func(d *day) { d.n.Running, d.w.busy, d.w.longBusy = 1, 1, 1 }, "look", "at every look in the last minute at least 1 callback ran: does it block, or is the process that busy?"},
		{"some run for each processor", func(d *day) { d.w.busy = busyMany * int64(runtime.GOMAXPROCS(0)) }, "", ""},
		{"more run than processors explain", func(d *day) {
			d.w.busy, d.w.longBusy = busyMany*int64(runtime.GOMAXPROCS(0))+1, 1
		}, "trouble", "they block, or wait for a lock"},
		{"they always run, timed", func(d *day) { d.n.CallbacksTimed, d.w.busy, d.w.longBusy = true, 1000, 1000 }, "", ""},
		{"running now and then, untimed", func(d *day) { d.n.Running = 9 }, "", ""},
		{"callbacks of half a second", func(d *day) {
			d.n.CallbacksTimed, d.n.Running, d.n.OldestRunning = true, 9, time.Second/2
		}, "", ""},
		{"slow callbacks", func(d *day) { d.n.SlowCallbacks, d.w.slowCallbacks = 9, 2 }, "look", "2 callbacks in the last 2 min took longer than WithSlowCallback allows"},
		{"slow callbacks of last week", func(d *day) { d.n.SlowCallbacks = 9 }, "", ""},
		{"panics", func(d *day) { d.n.Panics, d.w.panics = 9, 2 }, "trouble", "2 panics in operations' methods in the last 2 min"},
		{"one panic since start", func(d *day) { d.n.Panics, d.w = 1, window{panics: 1} }, "look", "1 panic in operations' methods since start"},
		{"panics of last week", func(d *day) { d.n.Panics = 9 }, "", ""},
		{"timeouts late", func(d *day) { *d.lateBy(time.Millisecond), *d.lateBy(time.Second) = 400, 5 }, "trouble", "5 of 405 by more than 0.1 s, p99 lateness ≤ 1.02s"},
		{"minutes late", func(d *day) { d.w.late.Counts[purgatory.HistogramBuckets-1] = 5 }, "trouble", "p99 lateness > 8m44"},
		{"few timeouts, one late", func(d *day) { *d.lateBy(time.Millisecond), *d.lateBy(time.Second) = 4, 1 }, "", ""},
		{"many timeouts, few late", func(d *day) { *d.lateBy(time.Millisecond), *d.lateBy(time.Second) = 40_000, 5 }, "", ""},
		{"late last week", func(d *day) { d.n.Late.Counts[purgatory.HistogramBuckets-1] = 500 }, "", ""},
		{"the reaper stalls, which the page says once", func(d *day) { d.w.stalls = 1 }, "", ""},
		{"timeouts late, and the process has stalled", func(d *day) {
			d.stalled = true
			*d.lateBy(time.Millisecond), *d.lateBy(time.Second) = 400, 5
		}, "", ""},
		{"full", func(d *day) { d.n.MaxPending, d.n.Pending, d.w.rejected, d.w.rejectedFull = 10, 10, 4, 4 }, "trouble", "full: 4 operations were refused"},
		{"a key is full", func(d *day) { d.w.rejected, d.w.rejectedFull = 4, 4 }, "trouble", "full: 4 operations were refused in the last 2 min, by WithMaxPendingPerKey"},
		{"nearly full", func(d *day) { d.n.MaxPending, d.n.Pending = 1000, 900 }, "look", "90 % full"},
		{"not full", func(d *day) { d.n.MaxPending, d.n.Pending = 1000, 700 }, "", ""},
		{"refused", func(d *day) { d.w.rejected = 1 }, "look", "1 operation was refused"},
		{"only timeouts", func(d *day) {
			d.w.ended[operation.Expired] = 3
			d.in.Expiring = []purgatory.KeyReport{onlyTimeouts(3), onlyTimeouts(2)}
		}, "trouble", "all operations of audit ended by timeout: does anybody"},
		{"only timeouts, last week", func(d *day) { d.in.Expiring = []purgatory.KeyReport{onlyTimeouts(3)} }, "", ""},
		{"half expire", func(d *day) { d.expired(292, 591) }, "trouble", "49 % of what ended in the last 60 s has expired, 292 of 591 operations: is a CheckAndComplete missing"},
		{"half have expired since start", func(d *day) {
			d.expired(292, 591)
			d.w.length, d.w.minute.length = 0, 0
		}, "look", "49 % of what ended since start has expired"},
		{"half expire, those of a known key", func(d *day) {
			d.expired(292, 591)
			d.in.Expiring = []purgatory.KeyReport{onlyTimeouts(3)}
		}, "trouble", "292 of 591 operations, all of audit among them: does anybody"},
		{"half expire, as expected", func(d *day) {
			d.expired(292, 591)
			d.n.TimeoutsExpected, d.in.Expiring = true, []purgatory.KeyReport{onlyTimeouts(3)}
		}, "", ""},
		{"a tenth expires", func(d *day) { d.expired(10, 100) }, "trouble", "10 % of what ended"},
		{"less than a tenth expires", func(d *day) { d.expired(9, 100) }, "look", "9 % of what ended"},
		{"one in a hundred expires", func(d *day) { d.expired(10, 1000) }, "look", "1 % of what ended"},
		{"less than one in a hundred expires", func(d *day) { d.expired(99, 10_000) }, "", ""},
		{"one in a hundred has expired since start", func(d *day) {
			d.expired(10, 1000)
			d.w.length, d.w.minute.length = 0, 0
		}, "", ""},
		{"few expire", func(d *day) { d.expired(4, 5) }, "", ""},
		{"clients go", func(d *day) { d.w.passedOver, d.w.ended[operation.Satisfied] = 101, 100 }, "look", "101 waits were passed over in the last 2 min, more than were satisfied"},
		{"some clients go", func(d *day) { d.w.passedOver, d.w.ended[operation.Satisfied] = 101, 101 }, "", ""},
		{"few clients go", func(d *day) { d.w.passedOver, d.w.ended[operation.Satisfied] = 100, 1 }, "", ""},
		{"nobody ever checks", func(d *day) { d.n.Accepted, d.n.Expired = 1, 1 }, "trouble", "1 operation has expired, none was satisfied, and no check was ever made"},
		{"checks find only those who have gone", func(d *day) { d.n.Expired, d.n.PassedOver = 1, 3 }, "", ""},
		{"nobody ever checks, clients go", func(d *day) { d.n.Expired, d.n.Cancelled, d.n.Pending = 20, 5, 9 }, "trouble", "20 operations have expired, none was satisfied, and no check was ever made"},
		{"nobody ever checks, whatever the key", func(d *day) {
			d.n.Expired, d.w.ended[operation.Expired] = 3, 3
			d.in.Expiring = []purgatory.KeyReport{onlyTimeouts(3)}
		}, "trouble", "no check was ever made"},
		{"nobody ever checks, as expected", func(d *day) { d.n.Expired, d.n.TimeoutsExpected = 20, true }, "", ""},
		{"nothing has ended yet", func(d *day) { d.n.Accepted, d.n.Pending = 7, 7 }, "", ""},
		{"all expire, with checks", func(d *day) { d.n.Expired, d.n.Checks = 20, 1 }, "", ""},
		{"all expire, with signals", func(d *day) { d.n.Expired, d.n.Signals = 20, 1 }, "", ""},
		{"satisfied at once, or expired", func(d *day) { d.n.Expired, d.n.Satisfied = 20, 1 }, "", ""},
		{"forced, or expired", func(d *day) { d.n.Expired, d.n.Forced = 20, 1 }, "", ""},
		{"checks in vain", func(d *day) { d.w.checks, d.w.wasted = 10_000, 9_900 }, "look", "99 % of the checks in the last 2 min"},
		{"positions in vain", func(d *day) { d.w.checks, d.w.wasted = 10_000, 9_900 }, "look", "CheckAndCompleteUpTo for positions"},
		{"one of many in vain", func(d *day) { d.w.checks, d.w.wasted = 10_000, 9_900 }, "look", "CheckAndCompleteInOrder for one of many (a semaphore, a queue)"},
		{"few checks in vain", func(d *day) { d.w.checks, d.w.wasted = 900, 900 }, "", ""},
		{"ever more wait", func(d *day) { d.w.pendingBefore, d.w.pendingHalfway, d.w.pendingAt = 300, 500, 900 }, "look", "pending has grown from 300 to 900"},
		{"ever more wait for their timeouts", func(d *day) {
			d.w.pendingBefore, d.w.pendingHalfway, d.w.pendingAt, d.n.TimeoutsExpected = 300, 500, 900, true
		}, "", ""},
		{"more wait, but less than before", func(d *day) { d.w.pendingBefore, d.w.pendingHalfway, d.w.pendingAt = 300, 1500, 900 }, "", ""},
	} {
		d := minuteOf(t)
		c.make(d)
		got := notes(&d.n, &d.w, &d.in, d.stalled)
		if c.level == "" {
			assert.Empty(t, got, c.name)
			assert.Equal(t, stateOK, state(got))
			continue
		}
		if assert.Len(t, got, 1, c.name) {
			assert.Equal(t, c.level, got[0].Level, c.name)
			assert.Equal(t, c.level, state(got))
			assert.Contains(t, got[0].Text, c.text, c.name)
		}
	}
}

// TestStuckCallbacksExplainExpiries: one cause, one trouble.
func TestStuckCallbacksExplainExpiries(t *testing.T) {
	d := minuteOf(t)
	d.expired(292, 591)
	d.n.Running, d.n.BlockedFor = 9, 4*time.Second
	d.w.pendingBefore, d.w.pendingHalfway, d.w.pendingAt = 300, 500, 900
	got := notes(&d.n, &d.w, &d.in, false)
	require.Len(t, got, 2)
	assert.Contains(t, got[0].Text, "none has returned")
	assert.Equal(t, Note{stateLook, "49 % of what ended in the last 60 s has expired, 292 of 591 operations"}, got[1])
	d.expired(1, 591)
	d.w.ended[operation.Expired], d.in.Expiring = 3, []purgatory.KeyReport{onlyTimeouts(3)}
	assert.Len(t, notes(&d.n, &d.w, &d.in, false), 1)
}

// TestTheWorstNoteIsTheState has slow callbacks, which are noted before refusals and to be looked at only.
func TestTheWorstNoteIsTheState(t *testing.T) {
	d := minuteOf(t)
	d.w.slowCallbacks, d.w.stalls, d.n.MaxPending, d.w.rejected, d.w.rejectedFull = 2, 1, 10, 4, 4
	got := notes(&d.n, &d.w, &d.in, false)
	require.Len(t, got, 2)
	assert.Equal(t, stateTrouble, state(got))
	for i, want := range []string{"full: 4 operations were refused", "2 callbacks"} {
		assert.Contains(t, got[i].Text, want)
	}
	h := hearing{window: d.w, ends: 3, failures: 1}
	got = signalNotes(&signals.Stats{Running: true, Standing: true}, &h, noon)
	require.Len(t, got, 2)
	assert.Equal(t, stateTrouble, state(got))
	assert.Contains(t, got[0].Text, "1 bulk read failed")
}

// TestNobodyChecks needs no option, and no look before this one.
func TestNobodyChecks(t *testing.T) {
	p := newFetches(t)
	submit(t, p, time.Second, "", "orders-0")
	page := pageOf(p)
	look := func() PurgatoryView {
		get(t, page, "/")
		return page.view(nil).Purgatories[0]
	}
	assert.Equal(t, stateOK, look().State)
	p.AdvanceClock(2 * time.Second)
	sick := look()
	require.Len(t, sick.Notes, 1)
	assert.Equal(t, stateTrouble, sick.State)
	assert.Contains(t, sick.Notes[0].Text, "no check was ever made")
	submit(t, p, time.Second, "", "orders-0")
	p.CheckAndComplete("orders-0")
	assert.Equal(t, stateOK, look().State)
}

// stuck is an operation whose callback does not return until it may.
type stuck struct {
	operation.DelayedOperation
	may chan struct{}
}

func (s *stuck) TryComplete() bool { return false }
func (s *stuck) OnComplete()       { <-s.may }
func (s *stuck) OnExpiration()     {}

// TestStuckWorkersAreSeen has 40 operations expire whose callbacks block both workers. No expiry ends, so no histogram
// shows it.
func TestStuckWorkersAreSeen(t *testing.T) {
	p, err := purgatory.New[string]("produces", purgatory.WithExpiryWorkers(2), purgatory.WithHistograms(), purgatory.WithSlowCallback(20*time.Millisecond))
	require.NoError(t, err)
	t.Cleanup(func() { p.Close() })
	may := make(chan struct{})
	t.Cleanup(func() { close(may) })
	for range 40 {
		_, err := p.TryCompleteElseWatch(&stuck{may: may}, 5*time.Millisecond, "orders-0")
		require.NoError(t, err)
	}
	p.Signal("orders-0") // somebody does
	page := pageOf(newFetches(t), p)
	t.Cleanup(page.Close)
	require.Eventually(t, func() bool {
		got := page.view(nil).Purgatories[0]
		return got.Name == "produces" && len(got.Notes) >= 2 && got.Notes[1].Level == stateTrouble && got.Due > 20
	}, time.Minute, 20*time.Millisecond)
	got := page.view(nil).Purgatories[0]
	assert.EqualValues(t, 2, got.Running)
	assert.EqualValues(t, 2, got.StuckCallbacks)
	assert.Contains(t, got.Notes[0].Text, "2 callbacks run, one for ")
	assert.Regexp(t, `^\d+ expired operations wait for a free worker, one for `, got.Notes[1].Text)
}
