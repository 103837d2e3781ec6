//go:build interleave

package programs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/delayedop/purgatory/proof/explore"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/timer"
	"github.com/delayedop/purgatory/watermark"
)

// TestWatermarks runs one watermark beside goroutines that wait, some with a timeout, leave, advance, recede, close it, end
// its operations, let time pass and close the purgatory, and beside other waits under its key.
//
//   - A wait ends with nil only if its position was reached during it and before the watermark was closed, with the cause
//     of its context only if that has ended below the position, with ErrExpired only if its timeout has passed below the
//     position, with the cause of Close only if that has begun, and not if it waited
//     then and its position was reached, and with another error only if a call has ended the operations of its key that had not returned
//     before.
//   - Nobody waits whose position is reached, or whose context has ended, or whose timeout has passed, or after a Close.
//   - The position is the highest of those it was advanced to, if it has neither receded nor was closed; once closed it stays.
//   - Those who begin together for one position never find the purgatory full, before anybody leaves.
//   - Stats counts those whose timeout has passed, and those who have given up, and no more as served or cancelled than were.
//   - When the last has left, no operation is left, and nobody is counted as waiting.
func TestWatermarks(t *testing.T) { runFamily(t, "watermark", drawWatermark) }

type marked struct {
	goroutines [][]markCall
	bound      int  // WithMaxPending; 0 for none
	together   bool // all wait for one position, and nothing else does
	recedes    bool
}

// markCall is a step of a program of a watermark. n is a position, or the number of a context.
type markCall struct {
	what string
	n    int
}

func (c markCall) String() string { return fmt.Sprint(c.what, " ", c.n) }

const markContexts = 2

func drawWatermark(d *drawer) small {
	m := &marked{together: d.oneIn(6)}
	whats, positions := []string{"await", "await", "await", "awaitFor", "awaitFor", "time", "wait", "advance", "advance", "leave", "cancelKey", "close", "shutdown", "signal", "stranger", "end"}, 3
	switch {
	case m.together:
		whats, positions, m.bound = []string{"await", "awaitFor", "await", "wait", "advance", "time", "signal", "end"}, 1, 1
	case d.oneIn(3):
		whats, m.recedes = append(whats, "recede", "recede", "advance", "await"), true
	case d.oneIn(4):
		m.bound = 1 + d.IntN(2)
	}
	for range 2 + d.IntN(3) {
		var calls []markCall
		for range 1 + d.IntN(3) {
			calls = append(calls, markCall{whats[d.IntN(len(whats))], 1 + d.IntN(positions)})
		}
		m.goroutines = append(m.goroutines, calls)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "  bound: %d\n", m.bound)
	for i, calls := range m.goroutines {
		fmt.Fprintln(&b, " ", calls, "context", i%markContexts)
	}
	return small{b.String(), m.setup}
}

// markRun is one run.
type markRun struct {
	*marked
	clock     *timer.ManualTimer
	past      []int64 // the position before the clock moved for the n-th time
	expired   int     // waits whose timeout has passed
	gaveUp    int     // whose contexts have ended, or that were stopped
	served    int     // that have got their position, also at once
	others    int     // that have ended otherwise
	p         *purgatory.DelayedOperationPurgatory[int]
	w         *watermark.Watermark[int]
	contexts  [markContexts]context.Context
	leave     [markContexts]context.CancelCauseFunc
	left      [markContexts]bool
	leftAt    [markContexts]int64 // the position before the context ended
	highest   int
	advancing map[int]int // by goroutine: where an Advance that has not returned goes
	begun     int         // calls that end the operations of the key
	returned  int         // of these
	closed    bool        // Close of the purgatory has begun, or Shutdown has returned
	ending    bool        // Close of the watermark has begun
	over      bool        // and one has returned
	overAt    int64       // the position then
	waiting   map[*markWait]bool
	waits     []*markWait // those of StartWait
	strange   []*purgatory.Wait[int]
	faults    []error
}

// markWait is an Await, or a wait of StartWait.
type markWait struct {
	markCall
	context  int                  // of an Await
	deadline time.Duration        // of an Await with a timeout
	wait     *watermark.Wait[int] // of StartWait
	highest  int                  // where the position can have been meanwhile, before the watermark was closed
	returned int                  // of the calls that end operations, before it began
	early    bool                 // StartWait had returned before Close of the watermark began
	late     bool                 // it began after that had returned
}

var errLeft, errEra = errors.New("left"), errors.New("the era is over")

func (m *marked) setup(spawn func(string, func())) func() error {
	r := &markRun{marked: m, waiting: make(map[*markWait]bool), advancing: make(map[int]int)}
	var err error
	if r.clock, err = timer.NewManualTimer(timer.WithWheelSize(4)); err != nil {
		panic(err)
	}
	options := []purgatory.Option{purgatory.WithTimer(r.clock), set("watcherShards", 1), purgatory.WithWorkers(1)}
	if m.bound > 0 {
		options = append(options, purgatory.WithMaxPending(m.bound))
	}
	if r.p, err = purgatory.New[int]("watermark", options...); err != nil {
		panic(err)
	}
	r.w = watermark.New(r.p, 0, 0)
	for i := range r.contexts {
		r.contexts[i], r.leave[i] = context.WithCancelCause(context.Background())
	}
	for i, calls := range m.goroutines {
		spawn(fmt.Sprint("g", i+1), func() {
			for _, c := range calls {
				r.do(i, c)
			}
		})
	}
	spawn("last", r.last)
	return func() error { return errors.Join(r.faults...) }
}

func (r *markRun) fault(format string, args ...any) {
	r.faults = append(r.faults, fmt.Errorf(format, args...))
}

func (r *markRun) do(goroutine int, c markCall) {
	switch c.what {
	case "await", "awaitFor":
		w, timeout := r.begin(c), purgatory.NoTimeout
		w.context = goroutine % markContexts
		if c.what == "awaitFor" {
			timeout = time.Duration(1+c.n%2) * tick
			w.deadline = r.clock.Now() + timeout
		}
		err := r.w.Await(r.contexts[w.context], timeout, int64(c.n))
		delete(r.waiting, w)
		r.judge(w, err)
	case "wait":
		w := r.begin(c)
		var err error
		if w.wait, err = r.w.StartWait(int64(c.n)); err != nil {
			delete(r.waiting, w)
			r.judge(w, err)
			return
		}
		w.early = !r.ending
		r.waits = append(r.waits, w)
	case "advance":
		if !r.over {
			r.advancing[goroutine] = c.n
			for w := range r.waiting {
				w.highest = max(w.highest, c.n)
			}
		}
		r.highest = max(r.highest, c.n)
		r.w.Advance(int64(c.n))
		delete(r.advancing, goroutine)
	case "time":
		r.pass()
	case "recede":
		r.w.Recede(int64(c.n - 1))
	case "end":
		r.ending = true
		r.w.Close(errEra)
		if !r.over {
			r.over, r.overAt = true, r.w.Position()
		}
	case "leave":
		r.leaveContext(c.n % markContexts)
	case "cancelKey":
		r.begun++
		r.p.CancelForKey(0, errCause)
		r.returned++
	case "close":
		r.closed = true
		_ = r.p.Close()
	case "shutdown":
		r.closed = true
		_ = r.p.Shutdown(ended)
	case "stranger": // another one waits under the key, for nothing
		if s, err := r.p.StartWait(purgatory.NoTimeout, func() bool { return false }, 0); err == nil {
			r.strange = append(r.strange, s)
		}
	case "signal":
		r.p.Signal(0)
	}
}

// pass moves the clock by a tick.
func (r *markRun) pass() {
	r.past = append(r.past, r.w.Position())
	r.clock.AdvanceClock(tick)
}

// leaveContext ends a context, if it has not ended.
func (r *markRun) leaveContext(i int) {
	if at := r.w.Position(); !r.left[i] { // read first: another goroutine may end the context meanwhile
		r.left[i], r.leftAt[i] = true, at
	}
	r.leave[i](errLeft)
}

func (r *markRun) begin(c markCall) *markWait {
	w := &markWait{markCall: c, returned: r.returned, late: r.over}
	if w.highest = int(r.w.Position()); !r.over {
		for _, to := range r.advancing {
			w.highest = max(w.highest, to)
		}
	}
	r.waiting[w] = true
	return w
}

func (r *markRun) judge(w *markWait, err error) {
	var ok bool
	switch {
	case err == nil:
		r.served++
		ok = w.highest >= w.n && !w.late
	case errors.Is(err, errEra):
		r.others++
		ok = r.ending && !(w.early && r.w.Position() >= int64(w.n))
	case w.late:
	case errors.Is(err, errLeft):
		r.gaveUp++
		ok = w.wait == nil && r.left[w.context] && (r.recedes || r.leftAt[w.context] < int64(w.n))
	case errors.Is(err, purgatory.ErrExpired):
		r.expired++
		n := int(w.deadline / tick) // the clock stands there after as many moves, at the earliest
		ok = w.deadline > 0 && r.clock.Now() >= w.deadline && (r.recedes || r.past[n-1] < int64(w.n))
	case errors.Is(err, purgatory.ErrClosed):
		r.others++
		ok = r.closed
	case errors.Is(err, purgatory.ErrFull):
		ok = r.bound > 0 && (!r.together || r.left[0] || len(r.past) > 0) // an operation that the last one leaves keeps its place until it has ended
	default:
		r.others++
		ok = r.begun > w.returned && (errors.Is(err, errCause) || errors.Is(err, purgatory.ErrCancelled))
	}
	if !ok {
		r.fault("%v at %d, at %d at most, early: %v, late: %v: %v; contexts that have ended: %v", w.markCall, r.w.Position(), w.highest, w.early, w.late, err, r.left)
	}
}

// last judges when nothing can go on, and then has everybody leave.
func (r *markRun) last() {
	explore.Settle()
	r.judgeWaits()
	for w := range r.waiting {
		if r.w.Position() >= int64(w.n) || r.closed || r.over || w.wait == nil && r.left[w.context] {
			r.fault("at %d, contexts that have ended: %v, closed: %v, era over: %v: and there waits %v", r.w.Position(), r.left, r.closed, r.over, w.markCall)
		}
	}
	if n := r.w.Waiting(); n != len(r.waiting) {
		r.fault("%d wait, and %d are counted", len(r.waiting), n)
	}
	for range 10 { // a goroutine has three steps, none of which may wait for more than two ticks
		r.pass()
		explore.Settle()
	}
	r.judgeWaits()
	for w := range r.waiting {
		if w.deadline > 0 {
			r.fault("at %v there waits %v, until %v", r.clock.Now(), w.markCall, w.deadline)
		}
	}
	for i := range r.leave {
		r.leaveContext(i)
	}
	explore.Settle() // those who have left go on, and may advance
	r.judgeWaits()
	for _, w := range r.waits {
		stopped := w.wait.Stop()
		if stopped != r.waiting[w] {
			r.fault("Stop is wrong about %v, which waits: %v", w.markCall, r.waiting[w])
		}
		if stopped {
			r.gaveUp++
		}
		delete(r.waiting, w)
	}
	for _, s := range r.strange {
		s.Stop()
	}
	explore.Settle()
	if s := r.p.Stats(); len(r.waiting) > 0 || s.Pending != 0 || s.Watched != 0 || r.w.Waiting() != 0 {
		r.fault("all have left, and %d of %v wait, with %+v", r.w.Waiting(), r.waiting, s)
	}
	if s := r.w.Stats(); s.Expired != int64(r.expired) || s.Left != int64(r.gaveUp) || s.Served > int64(r.served) ||
		s.Cancelled > int64(r.others) || s.Waiting != 0 || s.Oldest != 0 {
		r.fault("%d timeouts have passed, %d have given up, %d were served, and %d have ended otherwise, nobody waits: %+v", r.expired, r.gaveUp, r.served, r.others, s)
	}
	if n := r.clock.Pending(); n != 0 {
		r.fault("all have left, and %d entries are in the timer", n)
	}
	switch at := r.w.Position(); {
	case r.over && at != r.overAt:
		r.fault("it was closed at %d and stands at %d", r.overAt, at)
	case !r.over && !r.recedes && at != int64(r.highest):
		r.fault("it was advanced to %d and stands at %d", r.highest, at)
	}
	_ = r.p.Close()
}

// judgeWaits judges the waits of StartWait that have ended.
func (r *markRun) judgeWaits() {
	for _, w := range r.waits {
		if err := w.wait.Err(); r.waiting[w] && !errors.Is(err, purgatory.ErrPending) {
			delete(r.waiting, w)
			r.judge(w, err)
		}
	}
}
