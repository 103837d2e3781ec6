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
// and close.
//
//   - An Await returns nil only if its position is reached, the cause of its context only if that has ended, and
//     another error only if somebody has ended the operations of its key.
//   - Nobody waits whose position is reached, or whose context has ended, or after Close.
//   - The position is the highest of those it was advanced to.
//   - When the last has left, no operation is left.
func TestWatermarks(t *testing.T) { runFamily(t, "watermark", drawWatermark) }

type marked struct{ goroutines [][]markCall }

// markCall is a step of a program of a watermark. n is a position, or the number of a context.
type markCall struct {
	what string
	n    int
}

func (c markCall) String() string { return fmt.Sprint(c.what, " ", c.n) }

const markContexts = 2

func drawWatermark(d *drawer) small {
	m := &marked{}
	whats := []string{"await", "await", "await", "advance", "advance", "leave", "cancelKey", "completeKey", "close", "signal"}
	for range 2 + d.IntN(3) {
		var calls []markCall
		for range 1 + d.IntN(3) {
			calls = append(calls, markCall{whats[d.IntN(len(whats))], 1 + d.IntN(3)})
		}
		m.goroutines = append(m.goroutines, calls)
	}
	var b strings.Builder
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
	highest  int
	ended    bool // somebody has ended the operations of the key
	closed   bool
	waiting  map[int]markCall // by goroutine
	faults   []error
}

var errLeft = errors.New("left")

func (m *marked) setup(spawn func(string, func())) func() error {
	r := &markRun{waiting: make(map[int]markCall)}
	clock, err := timer.NewManualTimer(timer.WithWheelSize(4))
	if err != nil {
		panic(err)
	}
	if r.p, err = purgatory.New[int]("watermark", purgatory.WithTimer(clock), purgatory.WithWatcherShards(1), purgatory.WithSignalWorkers(1)); err != nil {
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
		r.waiting[goroutine] = c
		err := r.w.Await(r.contexts[goroutine%markContexts], int64(c.n))
		delete(r.waiting, goroutine)
		r.judge(goroutine, c, err)
	case "advance":
		r.highest = max(r.highest, c.n)
		r.w.Advance(int64(c.n))
	case "leave":
		r.left[c.n%markContexts] = true
		r.leave[c.n%markContexts](errLeft)
	case "cancelKey":
		r.ended = true
		r.p.CancelForKey(0, errCause)
	case "completeKey":
		r.ended = true
		r.p.CompleteForKey(0)
	case "close":
		r.closed = true
		_ = r.p.Close()
	case "signal":
		r.p.Signal(0)
	}
}

func (r *markRun) judge(goroutine int, c markCall, err error) {
	ok := false
	switch {
	case err == nil:
		ok = r.w.Position() >= int64(c.n)
	case errors.Is(err, errLeft):
		ok = r.left[goroutine%markContexts]
	case errors.Is(err, purgatory.ErrClosed):
		ok = r.closed
	default:
		ok = r.ended && (errors.Is(err, errCause) || errors.Is(err, purgatory.ErrCancelled))
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
	for i, leave := range r.leave {
		r.left[i] = true
		leave(errLeft)
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
