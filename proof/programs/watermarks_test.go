//go:build interleave

package programs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/delayedop/purgatory/proof/explore"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/timer"
	"github.com/delayedop/purgatory/watermark"
)

// TestWatermarks runs one watermark beside goroutines that wait, leave, advance, end its operations
// and close, and beside other waits under its key.
//
//   - An Await returns nil only if its position is reached, the cause of its context only if that has ended
//     below the position, and another error only if a call has ended the operations of its key that had not returned before.
//   - Nobody waits whose position is reached, or whose context has ended, or after Close.
//   - The position is the highest of those it was advanced to.
//   - When the last has left, no operation is left.
func TestWatermarks(t *testing.T) { runFamily(t, "watermark", drawWatermark) }

type marked struct {
	goroutines        [][]markCall
	inLine, onWorkers bool
}

// markCall is a step of a program of a watermark. n is a position, or the number of a context.
type markCall struct {
	what string
	n    int
}

func (c markCall) String() string { return fmt.Sprint(c.what, " ", c.n) }

const markContexts = 2

func drawWatermark(d *drawer) small {
	m := &marked{inLine: d.oneIn(4), onWorkers: d.oneIn(4)}
	whats := []string{"await", "await", "await", "advance", "advance", "leave", "cancelKey", "completeKey", "close", "shutdown", "signal", "stranger"}
	for range 2 + d.IntN(3) {
		var calls []markCall
		for range 1 + d.IntN(3) {
			calls = append(calls, markCall{whats[d.IntN(len(whats))], 1 + d.IntN(3)})
		}
		m.goroutines = append(m.goroutines, calls)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "  in line: %v, callbacks on workers: %v\n", m.inLine, m.onWorkers)
	for i, calls := range m.goroutines {
		fmt.Fprintln(&b, " ", calls, "context", i%markContexts)
	}
	return small{b.String(), m.setup}
}

// markRun is one run.
type markRun struct {
	p        *purgatory.DelayedOperationPurgatory[int]
	w        *watermark.Watermark[int]
	contexts [markContexts]context.Context
	leave    [markContexts]context.CancelCauseFunc
	left     [markContexts]bool
	leftAt   [markContexts]int64 // the position before the context ended
	highest  int
	begun    int              // calls that end the operations of the key
	returned int              // of these
	before   map[int]int      // by goroutine: returned when its Await began
	closed   bool             // Close has begun, or Shutdown has returned
	waiting  map[int]markCall // by goroutine
	strange  []*purgatory.Wait[int]
	faults   []error
}

var errLeft = errors.New("left")

func (m *marked) setup(spawn func(string, func())) func() error {
	r := &markRun{waiting: make(map[int]markCall), before: make(map[int]int)}
	clock, err := timer.NewManualTimer(timer.WithWheelSize(4))
	if err != nil {
		panic(err)
	}
	options := []purgatory.Option{purgatory.WithTimer(clock), purgatory.WithWatcherShards(1), purgatory.WithSignalWorkers(1)}
	if m.inLine {
		options = append(options, purgatory.WithFirstInFirstOut())
	}
	if m.onWorkers {
		options = append(options, purgatory.WithCallbacksOnWorkers())
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
	case "await":
		r.waiting[goroutine], r.before[goroutine] = c, r.returned
		err := r.w.Await(r.contexts[goroutine%markContexts], int64(c.n))
		delete(r.waiting, goroutine)
		r.judge(goroutine, c, err)
	case "advance":
		r.highest = max(r.highest, c.n)
		r.w.Advance(int64(c.n))
	case "leave":
		r.leaveContext(c.n % markContexts)
	case "cancelKey":
		r.begun++
		r.p.CancelForKey(0, errCause)
		r.returned++
	case "completeKey":
		r.begun++
		r.p.CompleteForKey(0)
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

// leaveContext ends a context, if it has not ended.
func (r *markRun) leaveContext(i int) {
	if !r.left[i] {
		r.left[i], r.leftAt[i] = true, r.w.Position()
	}
	r.leave[i](errLeft)
}

func (r *markRun) judge(goroutine int, c markCall, err error) {
	var ok bool
	switch {
	case err == nil:
		ok = r.w.Position() >= int64(c.n)
	case errors.Is(err, errLeft):
		ok = r.left[goroutine%markContexts] && r.leftAt[goroutine%markContexts] < int64(c.n)
	case errors.Is(err, purgatory.ErrClosed):
		ok = r.closed
	default:
		ok = r.begun > r.before[goroutine] && (errors.Is(err, errCause) || errors.Is(err, purgatory.ErrCancelled))
	}
	if !ok {
		r.fault("%v at %d: %v; contexts that have ended: %v", c, r.w.Position(), err, r.left)
	}
}

// last judges when nothing can go on, and then has everybody leave.
func (r *markRun) last() {
	explore.Settle()
	for goroutine, c := range r.waiting {
		if r.w.Position() >= int64(c.n) || r.left[goroutine%markContexts] || r.closed {
			r.fault("at %d, contexts that have ended: %v, closed: %v: and goroutine %d waits in %v", r.w.Position(), r.left, r.closed, goroutine+1, c)
		}
	}
	for i := range r.leave {
		r.leaveContext(i)
	}
	explore.Settle()
	for _, s := range r.strange {
		s.Stop()
	}
	explore.Settle()
	if s := r.p.Stats(); len(r.waiting) > 0 || s.Pending != 0 || s.Watched != 0 {
		r.fault("all have left, and %v wait, with %+v", r.waiting, s)
	}
	if r.w.Position() != int64(r.highest) {
		r.fault("it was advanced to %d and stands at %d", r.highest, r.w.Position())
	}
	_ = r.p.Close()
}
