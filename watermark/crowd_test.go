package watermark

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/proof/built"
	"github.com/delayedop/purgatory/purgatory"
)

// One goroutine that waits for its position costs its operation, of 128 bytes, and nothing else.
func TestAWaitOfOneGoroutineIsOneAllocation(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) == 8 {
		require.EqualValues(t, 128, unsafe.Sizeof(shared[string]{}))
	}
	if slices.Contains(built.Flags(), "-race=true") {
		t.Skip("the race detector makes a sync.Pool drop items")
	}
	w := New(newPurgatory(t), "a", 0)
	reach := make(chan int64, 1)
	var writer sync.WaitGroup
	writer.Go(func() {
		for position := range reach {
			w.Advance(position)
		}
	})
	position := int64(0)
	assert.LessOrEqual(t, testing.AllocsPerRun(1000, func() {
		position++
		reach <- position
		_ = w.Await(t.Context(), purgatory.NoTimeout, position)
	}), 1.0)
	close(reach)
	writer.Wait()
	left(t, w)
}

// Whoever shares a wait, or keeps its channel, sees it closed. Only one that is alone to the end gets a token.
func TestAChannelIsUsedAgainAfterOneGoroutineOnly(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile func(w *Watermark[string], s *shared[string])
		closed    bool
	}{
		"alone": {func(*Watermark[string], *shared[string]) {}, false},
		"alone, since another has left": {func(w *Watermark[string], _ *shared[string]) {
			joined, _, _ := enter(w, 5)
			leaves(w, joined)
		}, false},
		"two":                             {func(w *Watermark[string], _ *shared[string]) { _, _, _ = enter(w, 5) }, true},
		"a Wait":                          {func(w *Watermark[string], _ *shared[string]) { wait, _ := w.StartWait(5); wait.Stop() }, true},
		"OnComplete may be still to come": {func(_ *Watermark[string], s *shared[string]) { s.end(&reached) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := New(newPurgatory(t), "a", 0)
			s := entered(t, w)
			c.meanwhile(w, s)
			w.Advance(5)
			soon(t, s.over)
			select {
			case <-s.over:
				require.True(t, c.closed)
			default:
				require.False(t, c.closed)
			}
			require.NoError(t, s.err())
			left(t, w)
		})
	}
}

// The last one gives up while another goroutine tries the operation, which ends it later: until then the crowd is its.
func TestACrowdWhoseOperationIsStillToEndIsNotUsedAgain(t *testing.T) {
	w := New(newPurgatory(t), "a", 0)
	s := entered(t, w)
	m := machine.Of(s)
	require.True(t, m.Acquire())
	require.True(t, leaves(w, s))
	next := entered(t, w)
	require.NotSame(t, s.crowd, next.crowd)
	end, _ := m.Release(true)
	require.True(t, end)
	m.End()
	require.False(t, next.ended)
	require.Equal(t, operation.Pending, next.Outcome())
	require.True(t, leaves(w, next))
	left(t, w)
}

// One that gives up allocates its operation, and the cause of its end.
func TestAWaitThatIsGivenUpIsTwoAllocations(t *testing.T) {
	if slices.Contains(built.Flags(), "-race=true") {
		t.Skip("the race detector makes a sync.Pool drop items")
	}
	w := New(newPurgatory(t), "a", 0)
	assert.LessOrEqual(t, testing.AllocsPerRun(1000, func() { leaves(w, entered(t, w)) }), 2.0)
	left(t, w)
}

// soon fails if c has nothing to receive: the goroutine that ends a wait has done so by now.
func soon(t *testing.T, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	default:
		t.Fatal("the wait goes on")
	}
}

// A watermark that is made outside of a bubble, as a variable of a package is, is used there, in a bubble, and outside
// again: no channel crosses the border. That would end the program, or keep the bubble's time from passing.
func TestAWatermarkOfAPackageIsUsedInABubbleToo(t *testing.T) {
	w := New(newPurgatory(t), "a", 0)
	position := int64(0)
	use := func(t *testing.T, settle func()) {
		position++
		ended := make(chan error, 1)
		go func() { ended <- w.Await(t.Context(), purgatory.NoTimeout, position) }()
		for w.p.NumDelayed() == 0 {
			runtime.Gosched()
		}
		settle()
		w.Advance(position)
		require.NoError(t, <-ended)
	}
	for range 20 {
		use(t, func() {})
		synctest.Test(t, func(t *testing.T) { use(t, synctest.Wait) })
	}
	use(t, func() {})
	left(t, w)
}

// Nobody is woken by what an earlier wait has left in its channel, and nobody sleeps on.
func TestWaitsThatFollowEachOtherAllEnd(t *testing.T) {
	w := New(newPurgatory(t), "a", 0)
	const last = 2000
	var waits sync.WaitGroup
	for i := range int64(4) {
		waits.Go(func() {
			for position := int64(1); position <= last; position++ {
				ctx, cancel := context.WithCancel(context.Background())
				switch (position + i) % 8 {
				case 0:
					wait, err := w.StartWait(position)
					if assert.NoError(t, err) {
						<-wait.Done()
						assert.NoError(t, wait.Err())
					}
				case 1:
					go cancel()
					fallthrough
				default:
					if w.Await(ctx, purgatory.NoTimeout, position) == nil {
						assert.LessOrEqual(t, position, w.Position())
					}
				}
				cancel()
				if i == 0 {
					w.Advance(position + 1)
				}
			}
		})
	}
	w.Advance(1)
	waits.Wait()
	left(t, w)
}
