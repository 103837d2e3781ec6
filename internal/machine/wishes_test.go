package machine

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var errLate = errors.New("late")

// begun returns a new operation, which the caller holds.
func begun(t *testing.T) *Machine {
	t.Helper()
	op := &task{}
	require.True(t, Of(op).Begin(op, 1, purgatory1))
	return Of(op)
}

// A cause belongs to the wish that the holder finds: it is kept for a cancellation that has
// left a wish, and for no other.
func TestACauseIsKeptForAWishOnly(t *testing.T) {
	first, second := errGone, errLate
	for name, c := range map[string]struct {
		prepare func(w *Wishes, m *Machine) (held bool)
		held    bool
		kept    int
		wish    Outcome
		cause   error
	}{
		"a cancellation": {func(w *Wishes, m *Machine) bool {
			return w.Claim(m, Cancelled, purgatory1, &first)
		}, false, 1, Cancelled, first},
		"the second of two": {func(w *Wishes, m *Machine) bool {
			w.Claim(m, Cancelled, purgatory1, &first)
			return w.Claim(m, Cancelled, purgatory1, &second)
		}, false, 1, Cancelled, first},
		"without a cause": {func(w *Wishes, m *Machine) bool {
			w.Claim(m, Cancelled, purgatory1, nil)
			return w.Claim(m, Cancelled, purgatory1, &second)
		}, false, 1, Cancelled, nil},
		"after another wish": {func(w *Wishes, m *Machine) bool {
			w.Claim(m, Closed, purgatory1, nil)
			return w.Claim(m, Cancelled, purgatory1, &second)
		}, false, 0, Closed, nil},
		"before another wish": {func(w *Wishes, m *Machine) bool {
			w.Claim(m, Cancelled, purgatory1, &first)
			return w.Claim(m, Closed, purgatory1, nil)
		}, false, 1, Cancelled, first},
		"in another purgatory": {func(w *Wishes, m *Machine) bool {
			return w.Claim(m, Cancelled, purgatory1+1, &first)
		}, false, 0, Pending, nil},
		"no holder": {func(w *Wishes, m *Machine) bool {
			m.Release(true)
			return w.Claim(m, Cancelled, purgatory1, &first)
		}, true, 0, Pending, nil},
		"no holder, another outcome": {func(w *Wishes, m *Machine) bool {
			m.Release(true)
			return w.Claim(m, Forced, purgatory1, nil)
		}, true, 0, Pending, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var w Wishes
			m := begun(t)
			assert.Equal(t, c.held, c.prepare(&w, m))
			assert.Equal(t, c.kept, w.Len())
			wish, _ := m.Release(true)
			require.Equal(t, c.wish, wish)
			if wish == Pending {
				m.Acquire()
				wish = Forced
			}
			w.Settle([]*Machine{m}, []Outcome{wish}, nil)
			assert.Equal(t, wish, m.Outcome())
			assert.Equal(t, c.cause, m.Cause())
			assert.Zero(t, w.Len())
			assert.False(t, w.Claim(m, Cancelled, purgatory1, &second), "it has ended")
			assert.Zero(t, w.Len())
		})
	}
}

// However the holder gives the operation up, no cause is left.
func TestNoCauseIsLeft(t *testing.T) {
	cause, own := errGone, errLate
	for name, giveUp := range map[string]func(w *Wishes, m *Machine){
		"satisfied": func(w *Wishes, m *Machine) {
			w.Settle([]*Machine{m}, []Outcome{Satisfied}, nil)
			assert.NoError(t, m.Cause())
		},
		"cancelled": func(w *Wishes, m *Machine) {
			w.Settle([]*Machine{m}, []Outcome{Cancelled}, nil)
			assert.Equal(t, cause, m.Cause())
		},
		"with a cause": func(w *Wishes, m *Machine) {
			w.Settle([]*Machine{m}, []Outcome{Cancelled}, &own)
			assert.Equal(t, own, m.Cause())
		},
		"rejected":       func(w *Wishes, m *Machine) { w.GiveBack(m, false); assert.Equal(t, "new", state(m)) },
		"rejected, used": func(w *Wishes, m *Machine) { w.GiveBack(m, true); assert.Equal(t, "rejected, used", state(m)) },
	} {
		t.Run(name, func(t *testing.T) {
			var w Wishes
			m, other := begun(t), begun(t)
			w.Claim(m, Cancelled, purgatory1, &cause)
			w.Claim(other, Cancelled, purgatory1, &own)
			require.Equal(t, 2, w.Len())
			giveUp(&w, m)
			assert.Equal(t, 1, w.Len())
			met, third, none := begun(t), begun(t), begun(t)
			w.Claim(met, Cancelled, purgatory1, &cause)
			w.Claim(third, Cancelled, purgatory1, &cause)
			w.Claim(none, Cancelled, purgatory1, nil)
			batch, outcomes := []*Machine{met, other, third, none}, []Outcome{Satisfied, Cancelled, Cancelled, Cancelled}
			w.Settle(batch, outcomes, nil)
			for i, want := range []error{nil, own, cause, nil} {
				assert.Equal(t, outcomes[i], batch[i].Outcome())
				assert.Equal(t, want, batch[i].Cause(), "each has its own")
			}
			assert.Zero(t, w.Len())
		})
	}
}

// numbered is the cause of the n-th goroutine.
type numbered struct{ n int }

func (*numbered) Error() string { return "cancelled by a goroutine" }

// Many goroutines claim an operation while its holder tries it and then settles it. The one
// whose outcome it is has its cause in the operation, and no cause is left.
func TestTheCauseBelongsToTheWishUnderARace(t *testing.T) {
	const claims = 4
	cancelled, held, satisfied := 0, 0, 0
	for round := 0; round < 3000 || cancelled == 0 || held == 0 || satisfied == 0; round++ {
		var w Wishes
		m := begun(t)
		var causes [claims]error
		var holder atomic.Int64 // the claim that became the holder, plus 1
		var all sync.WaitGroup
		for i := range claims {
			causes[i] = &numbered{i}
			all.Go(func() {
				o := Cancelled
				if (round+i)%4 == 0 {
					o = Forced
				}
				if w.Claim(m, o, purgatory1, &causes[i]) {
					holder.Store(int64(i) + 1)
					if o == Forced {
						w.Settle([]*Machine{m}, []Outcome{o}, nil)
					} else {
						w.Settle([]*Machine{m}, []Outcome{o}, &causes[i])
					}
				}
			})
		}
		all.Go(func() {
			if round%3 == 0 { // the try returns true
				for range round % 7 {
					runtime.Gosched()
				}
				w.Settle([]*Machine{m}, []Outcome{Satisfied}, nil)
				return
			}
			if wish, _ := m.Release(true); wish != Pending {
				w.Settle([]*Machine{m}, []Outcome{wish}, nil)
			}
		})
		all.Wait()
		by := int(holder.Load()) - 1
		switch m.Outcome() {
		case Cancelled:
			cancelled++
			cause, ok := m.Cause().(*numbered) //nolint:errorlint // the very cause
			require.True(t, ok, "a cancellation has its cause")
			require.Same(t, causes[cause.n], error(cause))
			require.NotZero(t, (round+cause.n)%4, "the cause of a goroutine that has cancelled")
			if by >= 0 {
				held++
				require.Equal(t, by, cause.n)
			}
		case Satisfied:
			satisfied++
			require.NoError(t, m.Cause())
		default:
			require.Equal(t, Forced, m.Outcome())
			require.NoError(t, m.Cause())
		}
		require.Zero(t, w.Len())
	}
}

// A rejected operation may be submitted again at once. The cause of a cancellation after that
// stays.
func TestRejectTakesNoCauseOfTheNextSubmission(t *testing.T) {
	for range 3000 {
		var w Wishes
		m := begun(t)
		op := m.Operation()
		before, after := errGone, errLate
		w.Claim(m, Cancelled, purgatory1, &before)
		var again sync.WaitGroup
		again.Go(func() {
			for !m.Begin(op, 1, purgatory1) {
				runtime.Gosched()
			}
			w.Claim(m, Cancelled, purgatory1, &after)
			runtime.Gosched()
			w.Settle([]*Machine{m}, []Outcome{Cancelled}, nil)
		})
		w.GiveBack(m, false)
		again.Wait()
		require.Equal(t, after, m.Cause())
		require.Zero(t, w.Len())
	}
}
