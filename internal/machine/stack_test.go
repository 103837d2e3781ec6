package machine

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// asking is an operation whose TryComplete calls a function.
type asking struct {
	Core
	try func()
}

func (a *asking) TryComplete() bool { a.try(); return true }
func (*asking) OnComplete()         {}
func (*asking) OnExpiration()       {}

// nest calls f with this many frames added to the stack.
//
//go:noinline
func nest(frames int, f func()) {
	if frames == 0 {
		f()
		return
	}
	nest(frames-1, f)
}

// elsewhere calls f on a goroutine of its own.
func elsewhere(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}

func TestNestingRecognisesATry(t *testing.T) {
	look := func() (inTry bool) {
		_, inTry = Nesting()
		return inTry
	}
	assert.False(t, look())
	for _, frames := range []int{0, 1, 20, DeepStack / 2} {
		seen, elsewhereSeen := false, true
		try(held(&asking{try: func() {
			nest(frames, func() {
				seen = look()
				elsewhere(func() { elsewhereSeen = look() })
			})
		}}))
		assert.True(t, seen, "%d frames above it", frames)
		assert.False(t, elsewhereSeen, "it is this goroutine's stack that counts")
		assert.False(t, look(), "it is over")
	}
	outer := false
	try(held(&asking{try: func() {
		try(held(&asking{try: func() {}}))
		outer = look()
	}}))
	assert.True(t, outer, "the inner one is over")
}

// A goroutine that leaves a Try by a panic or by runtime.Goexit is inside the Try while
// the deferred calls of TryComplete run, and not afterwards.
func TestNestingRecognisesATryThatIsBeingLeft(t *testing.T) {
	for name, leave := range map[string]func(){"panic": func() { panic("no") }, "Goexit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			inside, outside := false, false
			elsewhere(func() {
				func() {
					defer func() { _ = recover() }()
					try(held(&asking{try: func() {
						defer func() { _, inside = Nesting() }()
						leave()
					}}))
				}()
				_, outside = Nesting()
			})
			assert.True(t, inside)
			assert.False(t, outside)
		})
	}
}

// held returns the machine of op, which the caller holds.
func held(op Operation) *Machine {
	m := Of(op)
	m.Begin(op, 1, purgatory1)
	return m
}

// try calls Try in a way that the compiler can inline into its caller.
func try(m *Machine) bool { return m.Try() }

// Neither inlining, with a profile or without, nor a call through a function value hides
// a Try or makes another function look like one.
func TestNestingFindsTheFrameOfEveryTry(t *testing.T) {
	for name, f := range map[string]func(*Machine) bool{
		"direct":  func(m *Machine) bool { return m.Try() },
		"wrapped": try,
		"value":   func(m *Machine) bool { value := m.Try; return value() },
	} {
		inTry := false
		require.True(t, f(held(&asking{try: func() { _, inTry = Nesting() }})), name)
		assert.True(t, inTry, name)
	}
	// A function that lies behind Try in memory is no Try, even within tryLength.
	f := runtime.FuncForPC(tryEntry)
	require.NotNil(t, f)
	assert.Contains(t, f.Name(), "machine.(*Machine).Try")
	assert.Equal(t, tryEntry, f.Entry())
	assert.Same(t, f, runtime.FuncForPC(tryEntry+1))
	end := tryEntry
	for runtime.FuncForPC(end) == f {
		end++
	}
	assert.LessOrEqual(t, uint64(end-tryEntry), uint64(tryLength), "every return address inside Try is found")
	inTry := true
	(&asking{try: func() { _, inTry = Nesting() }}).TryComplete()
	assert.False(t, inTry, "a TryComplete that somebody calls himself")
}

// looking looks at the stack when an operation ends.
type looking struct{ inTry bool }

func (l *looking) End(*Machine, Outcome, *error) { _, l.inTry = Nesting() }

// Expire lies near Try in memory.
func TestAnExpiryIsNoTry(t *testing.T) {
	var end looking
	var l List
	l.Init(&end)
	op := &task{}
	h := held(op)
	l.Link(h, 0, 0, nil)
	h.Release(true)
	end.inTry = true
	expire(h.Entry())
	assert.False(t, end.inTry)
}

func TestNestingRecognisesADeepStack(t *testing.T) {
	look := func() (deep bool) {
		deep, _ = Nesting()
		return deep
	}
	elsewhere(func() {
		assert.False(t, look())
		nest(DeepStack-50, func() { assert.False(t, look(), "below") })
		nest(DeepStack, func() { assert.True(t, look(), "above") })
		nest(10*DeepStack, func() { assert.True(t, look(), "far above") })
		assert.False(t, look(), "again")
	})
}

// Nesting does not find a Try below the last DeepStack frames, but the stack is deep then.
func TestNestingIsDeepWhereATryIsTooFarDown(t *testing.T) {
	try(held(&asking{try: func() {
		nest(2*DeepStack, func() {
			deep, _ := Nesting()
			assert.True(t, deep)
		})
	}}))
}

func TestNestingAllocatesNothing(t *testing.T) {
	assert.Zero(t, testing.AllocsPerRun(100, func() { Nesting() }))
}
