package purgatory_test

import (
	"errors"
	"log/slog"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/timer"
)

// The function of WithExecutor, the logger that is told of its error, and the panic handler
// that is told of its panic run while the purgatory has work in hand. These tests have each
// call runtime.Goexit there, which must end no goroutine of the purgatory's callers.

// goexits are executors that end the goroutine of their first call, after f.
func goexits(f func()) map[string][]purgatory.Option {
	var calls [3]atomic.Int32
	end := func() {
		f()
		runtime.Goexit()
	}
	first := func(i int, first func() error) purgatory.Option {
		return purgatory.WithExecutor(func(run func()) error {
			if calls[i].Add(1) == 1 {
				return first()
			}
			go run()
			return nil
		})
	}
	return map[string][]purgatory.Option{
		"executor": {first(0, func() error { end(); return nil })},
		"logger": {
			first(1, func() error { return errors.New("full") }),
			purgatory.WithLogger(slog.New(unwinding{purgatory.EventRefused, end})),
		},
		"panic handler": {
			first(2, func() error { panic("executor") }),
			purgatory.WithPanicHandler(func(v any, _ []byte) {
				if v == "executor" {
					end()
				}
			}),
		},
	}
}

// marking returns an operation each of whose tries, after the first skip, another goroutine
// asks to be repeated, up to n times.
func marking(p **stringPurgatory, skip, n int32) *op {
	o := &op{}
	o.try = func() bool {
		if i := o.tries.Load(); i > skip && i <= skip+n {
			inBackground(func() { (*p).CheckAndComplete("a") })()
		}
		return false
	}
	return o
}

// In a check: after eight looks it releases the operation, and signals its key. Meanwhile
// another goroutine ends the operation.
func TestAGoexitInTheKickOfALookKeepsNoHold(t *testing.T) {
	var p *stringPurgatory
	var o *op
	for name, opts := range goexits(func() { p.ForceComplete(o) }) {
		t.Run(name, func(t *testing.T) {
			p = onManualClock[string](t, opts...)
			o = marking(&p, 2, 100)
			submit(t, p, o, hour, "a")
			inBackground(func() { p.CheckAndComplete("a") })()
			eventually(t, func() bool { return o.completed.Load() > 0 }, "it ends")
			ended(t, o, operation.Forced)
		})
	}
}

// In a check, as above, but another goroutine tries the operation meanwhile. Two goroutines
// never hold it.
func TestAGoexitInTheKickOfALookFreesNoOtherHolder(t *testing.T) {
	var p *stringPurgatory
	g := newGate()
	var inside, overlaps atomic.Int32
	o := &op{}
	p = onManualClock[string](t, goexits(func() {
		go p.CheckAndComplete("a") // becomes the holder, and blocks in its try
		<-g.entered
	})["executor"]...)
	o.try = func() bool {
		if inside.Add(1) > 1 {
			overlaps.Add(1)
		}
		defer inside.Add(-1)
		switch i := o.tries.Load(); {
		case i > 2 && i <= 2+8:
			inBackground(func() { p.CheckAndComplete("a") })()
		case i == 11:
			g.pass()
		}
		return false
	}
	submit(t, p, o, hour, "a")
	inBackground(func() { p.CheckAndComplete("a") })()
	inBackground(func() { p.CheckAndComplete("a") })() // leaves a mark: the try blocks
	close(g.leave)
	eventually(t, func() bool { return inside.Load() == 0 }, "the try returns")
	assert.Zero(t, overlaps.Load(), "two tries of one operation at once")
}

// In a registration whose timeout has passed: it leaves the callbacks to a worker.
func TestAGoexitInTheKickOfAnExpiredRegistrationLosesNoTimeout(t *testing.T) {
	for name, opts := range goexits(func() {}) {
		t.Run(name, func(t *testing.T) {
			p := onManualClock[string](t, opts...)
			o := marking(&p, 1, 8)
			look := o.try
			o.try = func() bool {
				if o.tries.Load() == 2 {
					p.AdvanceClock(2 * time.Second) // its timeout passes: a wish
				}
				return look()
			}
			inBackground(func() { _, _ = p.TryCompleteElseWatch(o, time.Second, "a") })()
			for range 100 {
				p.AdvanceClock(time.Second)
			}
			eventually(t, func() bool { p.AdvanceClock(0); return o.completed.Load() == 1 && p.Stats().Running == 0 }, "the workers end")
			ended(t, o, operation.Expired)
		})
	}
}

// The first try ends the goroutine, and so does the executor that the timer then calls.
func TestTwoGoexitsInOneRegistrationLeaveNothingHeld(t *testing.T) {
	for name, opts := range goexits(func() {}) {
		t.Run(name, func(t *testing.T) {
			p := open[string](t, append(opts, purgatory.WithMaxPending(1))...)
			o := &op{}
			o.try = func() bool {
				if o.tries.Load() == 1 {
					runtime.Goexit()
				}
				return false
			}
			inBackground(func() { _, _ = p.TryCompleteElseWatch(o, 0, "a") })()
			eventually(t, func() bool { return o.expired.Load() == 1 }, "it expires")
			ended(t, o, operation.Expired)
			_, err := p.TryCompleteElseWatch(&op{}, hour, "b")
			assert.NoError(t, err, "the place of the operation is free again")
		})
	}
}

// A registration whose timeout has passed puts its entry back into the timer, which calls
// the executor. Close has found the wish to expire, and stops the timer.
func TestAGoexitBesideCloseLeavesNoOperationUnanswered(t *testing.T) {
	var goexit atomic.Bool
	var ran atomic.Int32 // workers
	p := open[string](t, purgatory.WithWatcherShards(1), purgatory.WithTimerOptions(timer.WithShards(1)),
		purgatory.WithExecutor(func(run func()) error {
			if goexit.Swap(false) {
				runtime.Goexit()
			}
			go func() {
				run()
				ran.Add(1)
			}()
			return nil
		}))
	blocked := newGate()
	submit(t, p, &op{complete: blocked.pass}, hour, "a")
	trying := newGate()
	o := &op{}
	o.try = func() bool {
		if o.tries.Load() == 2 {
			trying.pass()
		}
		return false
	}
	registered := inBackground(func() { _, _ = p.TryCompleteElseWatch(o, time.Millisecond, "b") })
	<-trying.entered
	eventually(t, func() bool { return ran.Load() > 0 }, "a worker leaves the timer's wish")
	closed := inBackground(func() { _ = p.Close() })
	<-blocked.entered // Close has claimed what it can, and has not stopped the timer
	goexit.Store(true)
	close(trying.leave)
	registered()
	require.False(t, goexit.Load(), "the executor was called")
	close(blocked.leave)
	closed()
	eventually(t, func() bool { return o.completed.Load() == 1 }, "it is answered")
}
