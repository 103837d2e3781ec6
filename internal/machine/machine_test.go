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

var errGone = errors.New("gone")

// begun returns the machine of a new operation, which the caller holds.
func begun() *Machine {
	op := &task{}
	Of(op).Begin(op, purgatory1)
	return Of(op)
}

// states has, for each state, a function that brings an operation into it.
var states = map[string]func(m *Machine){
	"new":               func(*Machine) {},
	"busy":              func(m *Machine) { m.begin() },
	"busy, again":       func(m *Machine) { m.begin(); m.Acquire() },
	"busy, wish":        func(m *Machine) { m.begin(); m.Claim(Cancelled, m.Owner()) },
	"busy, again, wish": func(m *Machine) { m.begin(); m.Acquire(); m.Claim(Cancelled, m.Owner()) },
	"busy, ends":        func(m *Machine) { m.begin(); m.Release(true); m.Claim(Cancelled, m.Owner()) },
	"busy, again, ends": func(m *Machine) { m.begin(); m.Release(true); m.Claim(Cancelled, m.Owner()); m.Acquire() },
	"pending":           func(m *Machine) { m.begin(); m.Release(true) },
	"ended":             func(m *Machine) { m.begin(); m.Settle(nil) },
	"refused":           func(m *Machine) { m.begin(); m.Refuse() },
}

func (m *Machine) begin() bool {
	op := (*task)(unsafe.Pointer(m))
	return m.Begin(op, purgatory1)
}

// state names the state that m is in.
func state(m *Machine) string {
	word := m.word().Load()
	name := []string{"new", "pending", "busy", "ended"}[word&phaseMask>>phaseShift]
	if name == "ended" && Outcome(word>>outcomeShift&7) == Pending {
		name = "refused"
	}
	if word&again != 0 {
		name += ", again"
	}
	if word&wishMask != 0 {
		name += ", wish"
	}
	if word&phaseMask == phaseBusy && word&outcomeMask != 0 {
		name += ", ends"
	}
	return name
}

func TestEveryTransition(t *testing.T) {
	type result struct {
		says any
		next string
	}
	type two [2]bool
	ended := []string{"new", "ended", "refused"}
	verbs := map[string]struct {
		do   func(m *Machine) any
		want map[string]result // by state; Settle and the like must not be called in the states that are missing
		none any               // what it says where nothing happens: in a state that is new or has ended, unless want has it
	}{
		"Begin": {func(m *Machine) any { return m.begin() }, map[string]result{
			"new": {true, "busy"}, "busy": {false, "busy"}, "busy, again": {false, "busy, again"}, "busy, wish": {false, "busy, wish"},
			"busy, ends": {false, "busy, ends"}, "pending": {false, "pending"},
		}, false},
		"Acquire": {func(m *Machine) any { return m.Acquire() }, map[string]result{
			"busy": {false, "busy, again"}, "busy, again": {false, "busy, again"}, "busy, wish": {false, "busy, again, wish"},
			"busy, again, wish": {false, "busy, again, wish"}, "busy, ends": {false, "busy, again, ends"}, "pending": {true, "busy"},
		}, false},
		"Claim": {func(m *Machine) any { held, wished := m.Claim(Closed, m.Owner()); return two{held, wished} }, map[string]result{
			"busy": {two{false, true}, "busy, wish"}, "busy, wish": {two{}, "busy, wish"}, "busy, ends": {two{}, "busy, ends"},
			"busy, again": {two{false, true}, "busy, again, wish"}, "busy, again, wish": {two{}, "busy, again, wish"}, "pending": {two{true, false}, "busy, ends"},
		}, two{}},
		"Release, to try again": {func(m *Machine) any { end, again := m.Release(true); return two{end, again} }, map[string]result{
			"busy": {two{}, "pending"}, "busy, again": {two{false, true}, "busy"},
			"busy, wish": {two{true, false}, "busy, wish, ends"}, "busy, again, wish": {two{false, true}, "busy, wish"},
		}, nil},
		"Release, not to try again": {func(m *Machine) any { end, again := m.Release(false); return two{end, again} }, map[string]result{
			"busy": {two{}, "pending"}, "busy, again": {two{false, true}, "pending"},
			"busy, wish": {two{true, false}, "busy, wish, ends"}, "busy, again, wish": {two{true, false}, "busy, again, wish, ends"},
		}, nil},
		"ReleaseUnmarked": {func(m *Machine) any { return m.ReleaseUnmarked() }, map[string]result{
			"busy": {true, "pending"}, "busy, again": {false, "busy, again"}, "busy, wish": {false, "busy, wish"}, "busy, again, wish": {false, "busy, again, wish"},
		}, nil},
		"Asked": {func(m *Machine) any { return m.Asked() }, map[string]result{
			"busy": {false, "busy"}, "busy, again": {true, "busy, again"}, "busy, wish": {false, "busy, wish"}, "busy, again, wish": {true, "busy, again, wish"},
		}, nil},
		"Ending": {func(m *Machine) any { return m.Ending() }, map[string]result{
			"new": {false, "new"}, "busy": {false, "busy"}, "busy, again": {false, "busy, again"}, "busy, wish": {true, "busy, wish"},
			"busy, ends": {true, "busy, ends"}, "pending": {false, "pending"},
		}, true},
		"EndsAs": {func(m *Machine) any { return m.EndsAs() }, map[string]result{
			"busy": {Satisfied, "busy"}, "busy, wish": {Satisfied, "busy, wish"}, "busy, ends": {Cancelled, "busy, ends"},
		}, nil},
		"Met": {func(m *Machine) any { m.Met(); return m.EndsAs() }, map[string]result{
			"busy, ends": {Satisfied, "busy"}, "busy, again, ends": {Satisfied, "busy, again"},
		}, nil},
		"Settle": {func(m *Machine) any { wished := m.Settle(nil); return []any{wished, m.Outcome()} }, map[string]result{
			"busy": {[]any{false, Satisfied}, "ended"}, "busy, again": {[]any{false, Satisfied}, "ended"}, "busy, ends": {[]any{false, Cancelled}, "ended"},
			"busy, wish": {[]any{true, Satisfied}, "ended"}, "busy, again, wish": {[]any{true, Satisfied}, "ended"},
		}, nil},
		"Refuse": {func(m *Machine) any { m.Refuse(); return m.Outcome() }, map[string]result{
			"busy": {Pending, "refused"}, "busy, again": {Pending, "refused"}, "busy, again, wish": {Pending, "refused"},
		}, nil},
	}
	for name, verb := range verbs {
		for _, from := range ended {
			if _, ok := verb.want[from]; !ok && verb.none != nil {
				verb.want[from] = result{verb.none, from}
			}
		}
		for from, want := range verb.want {
			m := Of(&task{})
			states[from](m)
			require.Equal(t, from, state(m))
			assert.Equal(t, want.says, verb.do(m), "%s when %s", name, from)
			assert.Equal(t, want.next, state(m), "%s when %s", name, from)
			if want.next != "new" {
				assert.EqualValues(t, purgatory1, m.Owner(), "the owner is kept")
			}
		}
	}
}

// A cause is that of a cancellation, and of no other outcome.
func TestOutcomeAndCause(t *testing.T) {
	for o := Satisfied; o < NumOutcomes; o++ {
		m, cause := begun(), errGone
		assert.Equal(t, Pending, m.Outcome())
		require.NoError(t, m.Cause())
		if o != Satisfied {
			m.Release(true)
			assert.Equal(t, Pending, m.Outcome())
			m.Claim(o, purgatory1)
		}
		m.Settle(&cause)
		assert.Equal(t, o, m.Outcome())
		if o == Cancelled {
			assert.Equal(t, errGone, m.Cause())
		} else {
			require.NoError(t, m.Cause())
		}
	}
	m := begun()
	m.Release(true)
	m.Claim(Cancelled, purgatory1)
	m.Settle(nil)
	assert.NoError(t, m.Cause(), "it has none")
}

func TestTheTimerEndsPendingOperationsOrAsksTheHolder(t *testing.T) {
	var l List
	var ended []*Machine
	l.Init(func(m *Machine) { ended = append(ended, m) })
	run := func(prepare func(m *Machine)) *Machine {
		m := begun()
		l.Link(m.First(), m, 0, l.Last())
		prepare(m)
		expire(m.Entry())
		return m
	}
	pending := run(func(m *Machine) { m.Release(true) })
	assert.Equal(t, Expired, pending.EndsAs())
	held := run(func(*Machine) {})
	end, _ := held.Release(true)
	assert.True(t, end)
	assert.Equal(t, Expired, held.EndsAs())
	run(func(m *Machine) { m.Settle(nil) })
	require.Len(t, ended, 1)
	assert.Same(t, pending, ended[0])
}

// Accepted is true from the moment at which the registering goroutine releases the
// operation until the operation ends.
func TestAcceptedIsTrueFromReleaseToEnd(t *testing.T) {
	m := begun()
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
	assert.False(t, m.AcceptedBy(purgatory1+1))
	held, _ := m.Claim(Forced, m.Owner())
	require.True(t, held)
	m.Settle(nil)
	assert.False(t, m.AcceptedBy(purgatory1))
	refused := begun()
	refused.Refuse()
	assert.False(t, refused.AcceptedBy(purgatory1))
}

// An operation is checked when a check has come to it, also if another goroutine holds it.
func TestAnOperationIsCheckedOnceACheckHasCome(t *testing.T) {
	m := begun()
	assert.False(t, m.Checked())
	m.Release(true)
	m.Claim(Expired, purgatory1)
	assert.False(t, m.Checked())
	for _, pending := range []bool{false, true} {
		m := begun()
		if pending {
			m.Release(true)
		}
		m.Acquire()
		assert.True(t, m.Checked())
		m.Release(false)
		m.Claim(Expired, purgatory1)
		assert.True(t, m.Checked())
	}
}

func TestAnOperationBelongsToOnePurgatory(t *testing.T) {
	op := &task{}
	m := Of(op)
	assert.Zero(t, m.Owner(), "it was not submitted")
	require.True(t, m.Begin(op, purgatory1))
	require.False(t, m.Begin(op, purgatory1+1))
	assert.EqualValues(t, purgatory1, m.Owner(), "another one was refused")
	m.Refuse()
	require.False(t, m.Begin(op, purgatory1+1), "it is used once")
	assert.EqualValues(t, purgatory1, m.Owner())
}

// Operations that have ended are tied by their entries.
func TestAChainOfOperations(t *testing.T) {
	first, second := begun(), begun()
	first.Settle(nil)
	second.Settle(nil)
	first.Chain(second)
	assert.Same(t, second, first.Unchain())
	assert.Nil(t, first.Unchain(), "it keeps nobody")
	assert.Nil(t, second.Unchain())
}

func TestAMachineKnowsItsOperationAndEntry(t *testing.T) {
	op := &task{}
	m := Of(op)
	Of(op).Begin(op, purgatory1)
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
		Of(op).Begin(op, purgatory1)
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
	require.True(t, Of(op).Begin(op, purgatory1))
	m.Release(true)
	holders, looks, ends := 0, 0, 0 // only the holder touches them; the race detector checks that
	var enough atomic.Bool
	var wg sync.WaitGroup
	end := func() { ends++; m.Settle(nil) }
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
					if wish {
						if m.EndsAs() != Forced {
							t.Errorf("the wish was %v", m.EndsAs())
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
	if held, wished := m.Claim(Forced, m.Owner()); held {
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
		m := Of(&task{})
		bring(m)
		before := m.word().Load()
		held, wished := m.Claim(Forced, purgatory1+1)
		assert.False(t, held || wished || m.AcceptedBy(purgatory1+1), name)
		assert.Equal(t, before, m.word().Load(), name)
	}
}
