package machine

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

	"github.com/delayedop/purgatory/internal/watchdog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(watchdog.Over(m)) }

type task struct {
	Core
	_ [8]byte
}

func (*task) TryComplete() bool { return false }
func (*task) OnComplete()       {}
func (*task) OnExpiration()     {}

// purgatory1 is the identity of the purgatory to which the tests submit operations.
const purgatory1 = 7

// listOwner records how the machine was ended.
type listOwner struct{ ended []Outcome }

func (l *listOwner) End(m *Machine, o Outcome, cause *error) {
	l.ended = append(l.ended, o)
	m.settle(o, cause)
}

var errGone = errors.New("gone")

// states has, for each state, a function that brings a new machine into it.
var states = map[string]func(m *Machine, op Operation){
	"new":  func(*Machine, Operation) {},
	"busy": func(m *Machine, op Operation) { Of(op).Begin(op, 3, purgatory1) },
	"busy, again": func(m *Machine, op Operation) {
		Of(op).Begin(op, 3, purgatory1)
		m.Acquire()
	},
	"busy, wish": func(m *Machine, op Operation) {
		Of(op).Begin(op, 3, purgatory1)
		m.claim(Cancelled, m.Owner())
	},
	"busy, again, wish": func(m *Machine, op Operation) {
		Of(op).Begin(op, 3, purgatory1)
		m.Acquire()
		m.claim(Cancelled, m.Owner())
	},
	"pending": func(m *Machine, op Operation) {
		Of(op).Begin(op, 3, purgatory1)
		m.Release(true)
	},
	"ended": func(m *Machine, op Operation) {
		Of(op).Begin(op, 3, purgatory1)
		m.settle(Forced, nil)
	},
	"rejected, used": func(m *Machine, op Operation) {
		Of(op).Begin(op, 3, purgatory1)
		m.giveBack(true)
	},
}

// state names the state that m is in.
func state(m *Machine) string {
	word := m.word().Load()
	name := []string{"new", "pending", "busy", "ended"}[word&phaseMask>>phaseShift]
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
		wish Outcome
		look bool
	}
	verbs := map[string]struct {
		do   func(m *Machine, op Operation) any
		want map[string]result // by state; Settle and the like must not be called in the states that are missing
	}{
		"Begin": {func(m *Machine, op Operation) any { return Of(op).Begin(op, 3, purgatory1) }, map[string]result{
			"new": {true, "busy"}, "busy": {false, "busy"}, "busy, again": {false, "busy, again"}, "busy, wish": {false, "busy, wish"},
			"busy, again, wish": {false, "busy, again, wish"}, "pending": {false, "pending"}, "ended": {false, "ended"}, "rejected, used": {false, "rejected, used"},
		}},
		"Acquire": {func(m *Machine, _ Operation) any { return m.Acquire() }, map[string]result{
			"new": {false, "new"}, "busy": {false, "busy, again"}, "busy, again": {false, "busy, again"}, "busy, wish": {false, "busy, again, wish"},
			"busy, again, wish": {false, "busy, again, wish"}, "pending": {true, "busy"}, "ended": {false, "ended"}, "rejected, used": {false, "rejected, used"},
		}},
		"Hold": {func(m *Machine, _ Operation) any { return m.Hold(m.Owner()) }, map[string]result{
			"new": {false, "new"}, "busy": {false, "busy"}, "busy, again": {false, "busy, again"}, "busy, wish": {false, "busy, wish"},
			"busy, again, wish": {false, "busy, again, wish"}, "pending": {true, "busy"}, "ended": {false, "ended"}, "rejected, used": {false, "rejected, used"},
		}},
		"Claim": {func(m *Machine, _ Operation) any {
			held, wished := m.claim(Closed, m.Owner())
			return [2]bool{held, wished}
		}, map[string]result{
			"new": {[2]bool{}, "new"}, "busy": {[2]bool{false, true}, "busy, wish"}, "busy, wish": {[2]bool{}, "busy, wish"},
			"busy, again": {[2]bool{false, true}, "busy, again, wish"}, "busy, again, wish": {[2]bool{}, "busy, again, wish"},
			"pending": {[2]bool{true, false}, "busy"}, "ended": {[2]bool{}, "ended"}, "rejected, used": {[2]bool{}, "rejected, used"},
		}},
		"Release, to try again": {func(m *Machine, _ Operation) any { wish, again := m.Release(true); return release{wish, again} }, map[string]result{
			"busy": {release{Pending, false}, "pending"}, "busy, again": {release{Pending, true}, "busy"},
			"busy, wish": {release{Cancelled, false}, "busy, wish"}, "busy, again, wish": {release{Pending, true}, "busy, wish"},
		}},
		"Release, not to try again": {func(m *Machine, _ Operation) any { wish, again := m.Release(false); return release{wish, again} }, map[string]result{
			"busy": {release{Pending, false}, "pending"}, "busy, again": {release{Pending, true}, "pending"},
			"busy, wish": {release{Cancelled, false}, "busy, wish"}, "busy, again, wish": {release{Cancelled, false}, "busy, again, wish"},
		}},
		"Asked": {func(m *Machine, _ Operation) any { return m.Asked() }, map[string]result{
			"busy": {false, "busy"}, "busy, again": {true, "busy, again"}, "busy, wish": {false, "busy, wish"}, "busy, again, wish": {true, "busy, again, wish"},
		}},
		"Settle": {func(m *Machine, _ Operation) any { return m.settle(Expired, nil) }, map[string]result{
			"busy": {Pending, "ended"}, "busy, again": {Pending, "ended"}, "busy, wish": {Cancelled, "ended"}, "busy, again, wish": {Cancelled, "ended"},
		}},
		"Reject, unused": {func(m *Machine, _ Operation) any { m.giveBack(false); return nil }, map[string]result{
			"busy": {nil, "new"}, "busy, again": {nil, "new"}, "busy, wish": {nil, "new"},
		}},
		"Reject, used": {func(m *Machine, _ Operation) any { m.giveBack(true); return nil }, map[string]result{
			"busy": {nil, "rejected, used"}, "busy, again, wish": {nil, "rejected, used"},
		}},
	}
	for name, verb := range verbs {
		for from, want := range verb.want {
			t.Run(name+" when "+from, func(t *testing.T) {
				op := &task{}
				m := Of(op)
				states[from](m, op)
				require.Equal(t, from, state(m))
				held := m.word().Load()&phaseMask == phaseBusy
				assert.Equal(t, want.says, verb.do(m, op))
				assert.Equal(t, want.next, state(m))
				if held && want.next != "new" && want.next != "ended" && want.next != "rejected, used" {
					assert.Equal(t, 2, m.extra(), "the number of keys is kept")
					assert.Equal(t, want.next == "pending", m.AcceptedBy(purgatory1), "the first release accepts it")
				}
			})
		}
	}
}

func TestOutcomeAndCause(t *testing.T) {
	for o := Satisfied; o < NumOutcomes; o++ {
		op := &task{}
		assert.Equal(t, Pending, Of(op).Outcome())
		m := Of(op)
		require.True(t, Of(op).Begin(op, 1, purgatory1))
		assert.Equal(t, Pending, Of(op).Outcome())
		require.NoError(t, Of(op).Cause())
		cause := errGone
		m.settle(o, &cause)
		assert.Equal(t, o, Of(op).Outcome())
		if o == Cancelled {
			assert.Equal(t, errGone, Of(op).Cause())
		} else {
			require.NoError(t, Of(op).Cause())
		}
	}
}

func TestTheTimerEndsPendingOperationsOrAsksTheHolder(t *testing.T) {
	h := &listOwner{}
	var l List
	l.Init(h)
	run := func(prepare func(m *Machine)) *Machine {
		op := &task{}
		m := Of(op)
		Of(op).Begin(op, 1, purgatory1)
		l.Link(m, 0, 0, nil)
		prepare(m)
		expire(m.Entry())
		return m
	}
	m := run(func(m *Machine) { m.Release(true) })
	assert.Equal(t, Expired, m.Outcome())
	m = run(func(*Machine) {})
	assert.Equal(t, Pending, m.Outcome())
	wish, _ := m.Release(true)
	assert.Equal(t, Expired, wish)
	m = run(func(m *Machine) { m.settle(Forced, nil) })
	assert.Equal(t, Forced, m.Outcome())
	assert.Equal(t, []Outcome{Expired}, h.ended)
}

// Accepted is true from the moment at which the registering goroutine releases the
// operation until the operation ends.
func TestAcceptedIsTrueFromReleaseToEnd(t *testing.T) {
	op := &task{}
	m := Of(op)
	assert.False(t, m.AcceptedBy(purgatory1))
	Of(op).Begin(op, 2, purgatory1)
	assert.False(t, m.AcceptedBy(purgatory1), "it is being registered")
	m.Acquire()
	_, look := m.Release(true)
	require.True(t, look)
	assert.False(t, m.AcceptedBy(purgatory1), "it is still held")
	m.Release(true)
	assert.True(t, m.AcceptedBy(purgatory1))
	require.True(t, m.Acquire())
	m.Acquire()
	assert.True(t, m.AcceptedBy(purgatory1), "another try")
	m.Release(false)
	assert.True(t, m.AcceptedBy(purgatory1))
	held, _ := m.claim(Forced, m.Owner())
	require.True(t, held)
	m.settle(Forced, nil)
	assert.False(t, m.AcceptedBy(purgatory1))
}

func TestAnOperationBelongsToOnePurgatory(t *testing.T) {
	op := &task{}
	m := Of(op)
	assert.Zero(t, m.Owner(), "it was not submitted")
	require.True(t, Of(op).Begin(op, 1, purgatory1))
	assert.EqualValues(t, purgatory1, m.Owner())
	require.False(t, Of(op).Begin(op, 1, purgatory1+1))
	assert.EqualValues(t, purgatory1, m.Owner(), "another one was refused")
	m.giveBack(false)
	assert.Zero(t, m.Owner(), "it may go elsewhere")
	require.True(t, Of(op).Begin(op, 1, purgatory1+1))
	assert.EqualValues(t, purgatory1+1, m.Owner())
	m.settle(Forced, nil)
	assert.EqualValues(t, purgatory1+1, m.Owner(), "it has ended there")
}

// indirect embeds by pointer, which compiles.
type indirect struct{ *task }

func TestFindReturnsNilForNilOperations(t *testing.T) {
	var none *task
	assert.Nil(t, Find(nil))
	assert.Nil(t, Find(none))
	assert.Nil(t, Find(&indirect{}))
	assert.Nil(t, Find(indirect{}))
	op := &task{}
	assert.Same(t, Of(op), Find(op))
	assert.Same(t, Of(op), Find(&indirect{op}))
}

func TestAMachineKnowsItsOperationAndEntry(t *testing.T) {
	op := &task{}
	m := Of(op)
	Of(op).Begin(op, 1, purgatory1)
	assert.Same(t, op, m.Operation())
	assert.Same(t, m, Of(m.Operation()))
	m.SetStart(time.Minute)
	assert.Equal(t, time.Minute, m.Start())
	assert.Zero(t, m.Entry().Deadline())
}

func TestSizes(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) != 8 {
		t.Skip("sizes are those of 64 bits")
	}
	assert.EqualValues(t, 104, unsafe.Sizeof(Machine{}))
	assert.EqualValues(t, 104, unsafe.Sizeof(Core{}))
	assert.EqualValues(t, 112, unsafe.Sizeof(task{}), "with 8 bytes of the user's: a size class")
	assert.EqualValues(t, 40, unsafe.Sizeof(Watch{}))
	assert.InDelta(t, 1, testing.AllocsPerRun(100, func() {
		op := &task{}
		Of(op).Begin(op, 1, purgatory1)
		Of(op).Release(true)
		sink = op
	}), 0, "the user's own")
}

var sink Operation

func TestAnOperationHasOneHolderAtATime(t *testing.T) {
	// Many goroutines acquire, release, and leave marks, and one is the holder at a time.
	// In the end one of them claims the operation, or leaves a wish that the holder
	// carries out.
	op := &task{}
	m := Of(op)
	require.True(t, Of(op).Begin(op, 1, purgatory1))
	m.Release(true)
	holders, looks, ends := 0, 0, 0 // only the holder touches them; the race detector checks that
	var enough atomic.Bool
	var wg sync.WaitGroup
	end := func() { ends++; m.settle(Forced, nil) }
	for range 4 {
		wg.Go(func() {
			for {
				if !m.Acquire() {
					if m.Outcome() != Pending {
						return
					}
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
					retry := looks%5 != 0
					wish, again := m.Release(retry)
					if wish != Pending {
						if wish != Forced {
							t.Errorf("the wish was %v", wish)
						}
						end()
					}
					held = retry && again
				}
			}
		})
	}
	for !enough.Load() {
		runtime.Gosched()
	}
	if held, wished := m.claim(Forced, m.Owner()); held {
		end()
	} else {
		assert.True(t, wished)
	}
	wg.Wait()
	assert.Equal(t, 1, ends)
	assert.Equal(t, Forced, Of(op).Outcome())
}

func TestAClaimForAnotherPurgatoryDoesNothing(t *testing.T) {
	for name, bring := range states {
		op := &task{}
		m := Of(op)
		require.True(t, Of(op).Begin(op, 1, purgatory1+1))
		m.giveBack(false)
		bring(m, op)
		before := m.word().Load()
		held, wished := m.claim(Forced, purgatory1+1)
		assert.False(t, held || wished || m.Hold(purgatory1+1) || m.AcceptedBy(purgatory1+1), name)
		assert.Equal(t, before, m.word().Load(), name)
	}
}
