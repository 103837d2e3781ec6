package operation

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/delayedop/purgatory/timer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type task struct {
	DelayedOperation
	_ [8]byte
}

func (*task) TryComplete() bool { return false }
func (*task) OnComplete()       {}
func (*task) OnExpiration()     {}

// home records how the machine was ended.
type home struct{ ended []Outcome }

func (h *home) End(m *Machine, o Outcome, cause *error) {
	h.ended = append(h.ended, o)
	m.Settle(o, cause)
}

var errGone = errors.New("gone")

// states brings a new machine into each state that a word can have.
var states = map[string]func(m *Machine, op Operation){
	"new":  func(*Machine, Operation) {},
	"busy": func(m *Machine, op Operation) { m.Begin(op, 3) },
	"busy, again": func(m *Machine, op Operation) {
		m.Begin(op, 3)
		m.Acquire()
	},
	"busy, wish": func(m *Machine, op Operation) {
		m.Begin(op, 3)
		m.Claim(Cancelled)
	},
	"busy, again, wish": func(m *Machine, op Operation) {
		m.Begin(op, 3)
		m.Acquire()
		m.Claim(Cancelled)
	},
	"pending": func(m *Machine, op Operation) {
		m.Begin(op, 3)
		m.Release(true)
	},
	"ended": func(m *Machine, op Operation) {
		m.Begin(op, 3)
		m.Settle(Forced, nil)
	},
	"rejected, used": func(m *Machine, op Operation) {
		m.Begin(op, 3)
		m.Reject(true)
	},
}

// state names the state that m is in.
func state(m *Machine) string {
	word := m.entry.Word().Load()
	name := []string{"new", "pending", "busy", "ended"}[word&phaseMask]
	if name == "ended" && Outcome(word>>outcomeShift&7) == Pending {
		name = "rejected, used"
	}
	if word&again != 0 {
		name += ", again"
	}
	if word&wishMask != 0 {
		name += ", wish"
	}
	return name
}

func TestEveryTransition(t *testing.T) {
	type result struct {
		says any
		next string
	}
	type release struct {
		v      Verdict
		wish   Outcome
		relook bool
	}
	verbs := map[string]struct {
		do   func(m *Machine, op Operation) any
		want map[string]result // by state; none: must not be called in it
	}{
		"Begin": {func(m *Machine, op Operation) any { return m.Begin(op, 3) }, map[string]result{
			"new": {true, "busy"}, "busy": {false, "busy"}, "busy, again": {false, "busy, again"}, "busy, wish": {false, "busy, wish"},
			"busy, again, wish": {false, "busy, again, wish"}, "pending": {false, "pending"}, "ended": {false, "ended"}, "rejected, used": {false, "rejected, used"},
		}},
		"Acquire": {func(m *Machine, _ Operation) any { return m.Acquire() }, map[string]result{
			"new": {Over, "new"}, "busy": {Marked, "busy, again"}, "busy, again": {Marked, "busy, again"}, "busy, wish": {Marked, "busy, again, wish"},
			"busy, again, wish": {Marked, "busy, again, wish"}, "pending": {Held, "busy"}, "ended": {Over, "ended"}, "rejected, used": {Over, "rejected, used"},
		}},
		"Claim": {func(m *Machine, _ Operation) any { return m.Claim(Closed) }, map[string]result{
			"new": {false, "new"}, "busy": {false, "busy, wish"}, "busy, again": {false, "busy, again, wish"}, "busy, wish": {false, "busy, wish"},
			"busy, again, wish": {false, "busy, again, wish"}, "pending": {true, "busy"}, "ended": {false, "ended"}, "rejected, used": {false, "rejected, used"},
		}},
		"Hold": {func(m *Machine, _ Operation) any { return m.Hold() }, map[string]result{
			"new": {false, "new"}, "busy": {false, "busy"}, "busy, again": {false, "busy, again"}, "busy, wish": {false, "busy, wish"},
			"busy, again, wish": {false, "busy, again, wish"}, "pending": {true, "busy"}, "ended": {false, "ended"}, "rejected, used": {false, "rejected, used"},
		}},
		"ClaimOrWish": {func(m *Machine, _ Operation) any { held, wished := m.ClaimOrWish(Closed); return [2]bool{held, wished} }, map[string]result{
			"new": {[2]bool{}, "new"}, "busy": {[2]bool{false, true}, "busy, wish"}, "busy, wish": {[2]bool{}, "busy, wish"},
			"pending": {[2]bool{true, false}, "busy"}, "ended": {[2]bool{}, "ended"},
		}},
		"Release, patient": {func(m *Machine, _ Operation) any { v, w, r := m.Release(true); return release{v, w, r} }, map[string]result{
			"busy": {release{Released, Pending, false}, "pending"}, "busy, again": {release{LookAgain, Pending, false}, "busy"},
			"busy, wish": {release{Carry, Cancelled, false}, "busy, wish"}, "busy, again, wish": {release{LookAgain, Pending, false}, "busy, wish"},
		}},
		"Release, impatient": {func(m *Machine, _ Operation) any { v, w, r := m.Release(false); return release{v, w, r} }, map[string]result{
			"busy": {release{Released, Pending, false}, "pending"}, "busy, again": {release{Released, Pending, true}, "pending"},
			"busy, wish": {release{Carry, Cancelled, false}, "busy, wish"}, "busy, again, wish": {release{Carry, Cancelled, false}, "busy, again, wish"},
		}},
		"ReleaseUnmarked": {func(m *Machine, _ Operation) any { return m.ReleaseUnmarked() }, map[string]result{
			"busy": {true, "pending"}, "busy, again": {false, "busy, again"}, "busy, wish": {false, "busy, wish"}, "busy, again, wish": {false, "busy, again, wish"},
		}},
		"ClearWish": {func(m *Machine, _ Operation) any { m.ClearWish(); return nil }, map[string]result{
			"busy": {nil, "busy"}, "busy, wish": {nil, "busy"}, "busy, again, wish": {nil, "busy, again"},
		}},
		"Settle": {func(m *Machine, _ Operation) any { return m.Settle(Expired, nil) }, map[string]result{
			"busy": {Pending, "ended"}, "busy, again": {Pending, "ended"}, "busy, wish": {Cancelled, "ended"}, "busy, again, wish": {Cancelled, "ended"},
		}},
		"Reject, unused": {func(m *Machine, _ Operation) any { return m.Reject(false) }, map[string]result{
			"busy": {Pending, "new"}, "busy, again": {Pending, "new"}, "busy, wish": {Cancelled, "new"},
		}},
		"Reject, used": {func(m *Machine, _ Operation) any { return m.Reject(true) }, map[string]result{
			"busy": {Pending, "rejected, used"}, "busy, again, wish": {Cancelled, "rejected, used"},
		}},
	}
	for name, verb := range verbs {
		for from, want := range verb.want {
			t.Run(name+" when "+from, func(t *testing.T) {
				op := &task{}
				m := Of(op)
				states[from](m, op)
				require.Equal(t, from, state(m))
				held := m.entry.Word().Load()&phaseMask == phaseBusy
				assert.Equal(t, want.says, verb.do(m, op))
				assert.Equal(t, want.next, state(m))
				if held && want.next != "new" && want.next != "ended" && want.next != "rejected, used" {
					assert.Equal(t, 2, m.extra(), "the number of keys is kept")
				}
			})
		}
	}
}

func TestOutcomeAndCause(t *testing.T) {
	for o := Satisfied; o < Outcomes; o++ {
		op := &task{}
		assert.Equal(t, Pending, op.Outcome())
		m := Of(op)
		require.True(t, m.Begin(op, 1))
		assert.Equal(t, Pending, op.Outcome())
		require.NoError(t, op.Cause())
		cause := errGone
		m.Settle(o, &cause)
		assert.Equal(t, o, op.Outcome())
		if o == Cancelled {
			assert.Equal(t, errGone, op.Cause())
		} else {
			require.NoError(t, op.Cause())
		}
	}
}

func TestTheTimerEndsAPendingOperationAndLeavesAWishToAHolder(t *testing.T) {
	h := &home{}
	var l List
	l.Init(h)
	run := func(prepare func(m *Machine)) *task {
		op := &task{}
		m := Of(op)
		m.Begin(op, 1)
		l.Link(m, 0, 0, nil)
		prepare(m)
		op.RunTask(m.Entry())
		return op
	}
	op := run(func(m *Machine) { m.Release(true) })
	assert.Equal(t, Expired, op.Outcome())
	op = run(func(*Machine) {})
	assert.Equal(t, Pending, op.Outcome())
	v, wish, _ := Of(op).Release(true)
	assert.Equal(t, Carry, v)
	assert.Equal(t, Expired, wish)
	op = run(func(m *Machine) { m.Settle(Forced, nil) })
	assert.Equal(t, Forced, op.Outcome())
	assert.Equal(t, []Outcome{Expired}, h.ended)

	// Nobody else gets in by RunTask.
	op = &task{}
	Of(op).Begin(op, 1)
	Of(op).Release(true)
	op.RunTask(&timer.TaskEntry{})
	op.RunTask(nil)
	assert.Equal(t, Pending, op.Outcome())
}

func TestAnOperationKnowsItself(t *testing.T) {
	op := &task{}
	m := Of(op)
	m.Begin(op, 1)
	assert.Same(t, op, m.Operation())
	assert.Same(t, m, Of(m.Operation()))
	other := &task{}
	assert.Equal(t, []*timer.TaskEntry{m.Entry(), Of(other).Entry()}, Entries([]*Machine{m, Of(other)}))
	assert.Empty(t, Entries(nil))
	m.SetStart(time.Minute)
	assert.Equal(t, time.Minute, m.Start())
	assert.Zero(t, m.Entry().Deadline())
}

func TestSizes(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) != 8 {
		t.Skip("sizes are those of 64 bits")
	}
	assert.EqualValues(t, 104, unsafe.Sizeof(DelayedOperation{}))
	assert.EqualValues(t, 112, unsafe.Sizeof(task{}), "with 8 bytes of the user's: a size class")
	assert.EqualValues(t, 40, unsafe.Sizeof(Watch{}))
	assert.InDelta(t, 1, testing.AllocsPerRun(100, func() {
		op := &task{}
		Of(op).Begin(op, 1)
		Of(op).Release(true)
		sink = op
	}), 0, "the user's own")
}

var sink Operation

func TestHoldersAreAlone(t *testing.T) {
	// Many goroutines acquire, release, and leave marks: one holds at a time. In the end
	// somebody claims it, or leaves a wish that the holder carries out.
	op := &task{}
	m := Of(op)
	require.True(t, m.Begin(op, 1))
	m.Release(true)
	holders, looks, ends := 0, 0, 0 // of the holder; unguarded: the race detector watches
	var enough atomic.Bool
	var wg sync.WaitGroup
	end := func() { ends++; m.Settle(Forced, nil) }
	for range 4 {
		wg.Go(func() {
			for {
				switch m.Acquire() {
				case Over:
					return
				case Marked:
					continue
				}
				for held := true; held; {
					if holders++; holders != 1 {
						t.Error("two hold it")
					}
					if looks++; looks == 3000 {
						enough.Store(true)
					}
					holders--
					switch v, wish, _ := m.Release(looks%5 != 0); v {
					case Released:
						held = false
					case Carry:
						if wish != Forced {
							t.Errorf("the wish was %v", wish)
						}
						end()
						held = false
					}
				}
			}
		})
	}
	for !enough.Load() {
		runtime.Gosched()
	}
	if held, wished := m.ClaimOrWish(Forced); held {
		end()
	} else {
		assert.True(t, wished)
	}
	wg.Wait()
	assert.Equal(t, 1, ends)
	assert.Equal(t, Forced, op.Outcome())
}
