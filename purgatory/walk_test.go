package purgatory_test

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// Tests of the walk of a key: there is one at a time, and whoever meets it leaves a mark.

// at registers o for a position of key.
func at[K comparable](t *testing.T, p *purgatory.Purgatory[K], o *op, key K, position int64) {
	t.Helper()
	completed, err := p.TryCompleteElseWatchAt(o, hour, purgatory.KeyPosition[K]{Key: key, Position: position})
	require.NoError(t, err)
	require.False(t, completed)
}

// A crowd of checks costs little more than a few: 100 goroutines make 200 checks each of a key for which 1,000 wait and say no. One after
// the other they would make 20 million tries.
func TestACrowdOfChecksMakesFewTries(t *testing.T) {
	const waiting, goroutines, checks = 1000, 100, 200
	p := onManualClock[int](t)
	var tries, met atomic.Int64
	for range waiting {
		submit(t, p, &op{try: func() bool {
			if tries.Add(1)%64 == 0 {
				runtime.Gosched() // or on few processors a check would be over before the next one begins
			}
			return met.Load() > 0
		}}, hour, 1)
	}
	tries.Store(0)
	var crowd sync.WaitGroup
	start := make(chan struct{})
	for range goroutines {
		crowd.Go(func() {
			<-start
			for range checks {
				p.CheckAndComplete(1)
			}
		})
	}
	close(start)
	crowd.Wait()
	eventually(t, p.AtRest, "the workers to which walks have left the rest")
	assert.LessOrEqual(t, tries.Load(), int64(500_000))
	assert.GreaterOrEqual(t, tries.Load(), int64(2*waiting), "the first check, and one after the last mark")
	assert.Equal(t, tries.Load(), p.Stats().Checks)
	met.Store(1)
	assert.Equal(t, waiting, p.CheckAndComplete(1))
}

// The first callback of a batch blocks, so that the walk of its check pauses. Another check takes over what the walk has not come to, also
// if it asks for lower positions only, and the first one does not try it again. (In the second half, nobody comes: it goes on itself.)
func TestAnotherWalkTakesOverTheRestOfAPausedOne(t *testing.T) {
	const behind = 2 * purgatory.BatchSize
	for name, check := range map[string]func(p *stringPurgatory) int{
		"a check":            func(p *stringPurgatory) int { return p.CheckAndComplete("a") },
		"for the same":       func(p *stringPurgatory) int { return p.CheckAndCompleteUpTo("a", 5) },
		"for a lower one":    func(p *stringPurgatory) int { return p.CheckAndCompleteUpTo("a", 1) },
		"nobody, who resume": nil,
	} {
		t.Run(name, func(t *testing.T) {
			p := onManualClock[string](t)
			var met atomic.Bool
			g := newGate()
			first := until(&met)
			first.complete = g.pass
			at(t, p, first, "a", 2)
			var all []*op
			for i := range 2*purgatory.BatchSize + behind {
				o := until(&met)
				if i%2 == 0 && i > purgatory.BatchSize {
					o.try = nil // says no
				}
				at(t, p, o, "a", 3)
				all = append(all, o)
			}
			beyond := until(&met)
			at(t, p, beyond, "a", 6)
			met.Store(true)
			var ends int
			wait := inBackground(func() { ends = p.CheckAndCompleteUpTo("a", 5) })
			<-g.entered
			before := p.Stats().Satisfied
			if check != nil {
				assert.Positive(t, check(p))
			}
			close(g.leave)
			wait()
			if check != nil {
				assert.EqualValues(t, before, ends, "it does not go on where another walk has gone over the rest")
			}
			for i, o := range all {
				if o.try == nil {
					pending(t, o)
				} else {
					ended(t, o, operation.Satisfied)
				}
				assert.EqualValues(t, 3, o.tries.Load(), "operation %d: two of its registration, and one", i)
			}
			assert.Equal(t, name == "a check", beyond.Outcome() == operation.Satisfied)
			assert.True(t, p.AtRest())
		})
	}
}

// pausing returns operations of key "a", of which the first says yes, and, when a check comes to them, blocks in its callback, so that the
// walk pauses in the middle.
func pausing(t *testing.T, p *stringPurgatory, says *atomic.Bool) (all []*op, pause *gate) {
	t.Helper()
	pause = newGate()
	var armed atomic.Bool
	for i := range 3 * purgatory.BatchSize {
		o := &op{try: func() bool { return armed.Load() && i%2 == 0 || says.Load() }}
		submit(t, p, o, hour, "a")
		all = append(all, o)
	}
	all[0].complete = pause.pass
	armed.Store(true)
	return all, pause
}

// While another walk of its key is under way, a walk that has paused is over.
func TestAPausedWalkIsOverWhileAnotherOneRuns(t *testing.T) {
	p := onManualClock[string](t)
	all, pause := pausing(t, p, new(atomic.Bool))
	var ends, others int
	wait := inBackground(func() { ends = p.CheckAndComplete("a") })
	<-pause.entered
	before := p.Stats().Satisfied
	in := newGate()
	all[1].try = func() bool { in.pass(); return false }
	other := inBackground(func() { others = p.CheckAndComplete("a") })
	<-in.entered
	close(pause.leave)
	wait()
	assert.EqualValues(t, before, ends)
	assert.Equal(t, before, p.Stats().Satisfied)
	close(in.leave)
	other()
	assert.Equal(t, len(all)/2, ends+others)
	assert.True(t, p.AtRest())
}

// A check has left a mark, and the walk that it has met pauses for a callback that blocks: a worker goes on, for no callback keeps
// what another goroutine has asked for.
func TestAMarkDoesNotWaitForACallback(t *testing.T) {
	p := onManualClock[string](t)
	var says atomic.Bool
	all, pause := pausing(t, p, &says)
	in := newGate()
	all[2].try = func() bool { in.pass(); return true }
	wait := inBackground(func() { p.CheckAndComplete("a") })
	<-in.entered
	says.Store(true)
	assert.Zero(t, p.CheckAndComplete("a"))
	close(in.leave)
	<-pause.entered
	eventually(t, func() bool { return p.Stats().Satisfied == int64(len(all)) }, "a worker tries those that were visited before, and the rest")
	close(pause.leave)
	wait()
	eventually(t, p.AtRest, "the worker ends")
}

// A signal that comes while a walk is paused is for those before its place, too: a worker goes over all.
func TestASignalDuringAPauseIsNotLost(t *testing.T) {
	p := onManualClock[string](t)
	held := purgatory.HoldWorkers(t, p)
	var says atomic.Bool
	all, pause := pausing(t, p, &says)
	wait := inBackground(func() { p.CheckAndComplete("a") })
	<-pause.entered
	says.Store(true)
	p.Signal("a")
	close(pause.leave)
	wait()
	held.Work()
	for _, o := range all {
		ended(t, o, operation.Satisfied)
	}
}

// The operations of a key end, and it leaves the map, while its walk runs or is paused. Those that come later under the key, of which the
// memory of its list is used again, are no business of that walk's, and a check finds them.
func TestAKeyMayLeaveTheMapUnderItsWalk(t *testing.T) {
	const waiting = 2 * purgatory.BatchSize
	for name, in := range map[string]string{"runs": "TryComplete", "is paused": "OnComplete"} {
		t.Run(name, func(t *testing.T) {
			p := onManualClock[string](t, purgatory.WithWatcherShards(1))
			var armed, met atomic.Bool
			g := newGate()
			all := make([]*op, waiting)
			for i := range all {
				all[i] = &op{try: func() bool { return armed.Load() && i < purgatory.BatchSize && in == "OnComplete" }}
				submit(t, p, all[i], hour, "a")
			}
			if in == "OnComplete" {
				all[0].complete = g.pass
			} else {
				all[0].try = func() bool { g.pass(); return false }
			}
			armed.Store(true)
			wait := inBackground(func() { p.CheckAndComplete("a") })
			<-g.entered
			p.CancelForKey("a", nil) // all but those that the walk holds or has ended
			if in == "TryComplete" {
				assert.Equal(t, 1, p.Waiting("a"))
				close(g.leave) // it is cancelled by its holder
				wait()
			}
			assert.Zero(t, p.Waiting("a"))
			assert.Zero(t, p.Stats().Keys)
			var late []*op
			for range waiting {
				o := until(&met)
				submit(t, p, o, hour, "a")
				late = append(late, o)
			}
			met.Store(true)
			if in == "OnComplete" {
				close(g.leave)
				wait()
				for _, o := range late {
					assert.EqualValues(t, 2, o.tries.Load(), "they came after the walk")
				}
			}
			assert.Equal(t, waiting, p.CheckAndComplete("a"))
			for _, o := range append(all, late...) {
				assert.EqualValues(t, 1, o.completed.Load())
			}
			assert.True(t, p.AtRest())
			empty(t, p)
		})
	}
}

// While a walk tries the operations of a key, CancelForKey and Close end those that nobody holds, and wait for nobody; the one that is
// being tried ends by its holder. Two of them end each operation once.
func TestAKeyIsCancelledBesideItsWalk(t *testing.T) {
	for name, end := range map[string]func(p *stringPurgatory) int{
		"CancelForKey": func(p *stringPurgatory) int { return p.CancelForKey("a", errGone) },
		"Close":        func(p *stringPurgatory) int { assert.NoError(t, p.Close()); return 199 },
	} {
		for _, says := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				p := onManualClock[string](t)
				g := newGate()
				all := make([]*op, 200)
				for i := range all {
					all[i] = submitted(t, p, "a", "b")
				}
				held := all[100]
				held.try = func() bool { g.pass(); return says }
				n := 0
				wait := inBackground(func() { n = p.CheckAndComplete("a") })
				<-g.entered
				assert.Equal(t, 199, end(p))
				assert.Zero(t, p.CancelForKey("b", nil), "a wish comes too late")
				pending(t, held)
				for i, o := range all {
					assert.True(t, i == 100 || o.completed.Load() == 1)
				}
				close(g.leave)
				wait()
				assert.Equal(t, 1, n, "the holder has ended it")
				assert.Equal(t, says, held.Outcome() == operation.Satisfied)
				if !says && name == "CancelForKey" {
					assert.Equal(t, errGone, held.Cause(), "that of the first call")
				}
				assert.Zero(t, p.Causes())
				empty(t, p)
			})
		}
	}
}

// CancelForKey claims all operations of the key, 32 in a hold, before it runs the first callback, which may call what it likes.
func TestACancellationClaimsAllBeforeItsFirstCallback(t *testing.T) {
	for _, n := range []int{1, 31, 32, 33, 63, 64, 65, 300} {
		p := onManualClock[string](t)
		all := make([]*op, n)
		for i := range all {
			all[i] = submitted(t, p, "a")
			all[i].complete = func() {
				assert.Equal(t, operation.Cancelled, all[n-1].Outcome())
				assert.Zero(t, p.CancelForKey("a", nil)+p.CheckAndComplete("a"))
				assert.False(t, p.ForceComplete(all[n-1]))
			}
		}
		assert.Equal(t, n, p.CancelForKey("a", errGone))
		for _, o := range all {
			ended(t, o, operation.Cancelled)
			assert.Equal(t, errGone, o.Cause())
		}
	}
}

// A walk tries as many as a batch has before it runs the first callback, and none more, whatever says no in between.
func TestABatchHasItsBound(t *testing.T) {
	for _, no := range []int{1 << 30, 2, 3, 7, 8, 9} { // each no-th says no
		p := onManualClock[string](t)
		yes, met := 0, false
		most := 0
		for i := range 4 * purgatory.BatchSize {
			o := &op{}
			o.try = func() bool {
				if met && i%no != no-1 {
					yes++
					return true
				}
				return false
			}
			o.complete = func() { most, yes = max(most, yes), 0 }
			submit(t, p, o, hour, "a")
		}
		met = true
		p.CheckAndComplete("a")
		assert.LessOrEqual(t, most, purgatory.BatchSize)
		assert.Greater(t, most, purgatory.BatchSize-8)
	}
	for _, n := range []int{7, 8, 9, purgatory.BatchSize - 1, purgatory.BatchSize, purgatory.BatchSize + 1} {
		p := onManualClock[string](t)
		tried, first, met := 0, 0, false
		for range n {
			o := &op{try: func() bool {
				if met {
					assert.EqualValues(t, tried/8*8, p.Stats().Checks, "a group is counted when all of it were tried")
				}
				tried++
				return met
			}}
			o.complete = func() {
				if first == 0 {
					first = tried
				}
			}
			submit(t, p, o, hour, "a")
		}
		tried, met = 0, true
		assert.Equal(t, n, p.CheckAndComplete("a"))
		assert.Equal(t, []int{n, min(n, purgatory.BatchSize)}, []int{tried, first}, "tries, and those before the first callback")
	}
}

// Walks, claims, ends one by one, expiries and newcomers race on a few keys, at positions and without, so that keys leave the map and
// come back all the time. Each operation ends once, and one whose condition was met before a check does not wait any more.
func TestWalksAndClaimsRace(t *testing.T) {
	const keys, goroutines = 3, 4
	p := onManualClock[int](t, purgatory.WithWatcherShards(1))
	var levels [keys]atomic.Int64
	var group sync.WaitGroup
	var mu sync.Mutex
	var all []*op
	for g := range goroutines {
		group.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 11))
			var mine []*op
			for range howMany(4000, 800) {
				key := r.IntN(keys)
				level := levels[key].Load() + 1 + r.Int64N(3)
				o := &op{try: func() bool { return levels[key].Load() >= level }}
				position := purgatory.AnyPosition
				if r.IntN(2) == 0 {
					position = level
				}
				_, err := p.TryCompleteElseWatchAt(o, hour, purgatory.KeyPosition[int]{Key: key, Position: position},
					purgatory.KeyPosition[int]{Key: r.IntN(keys), Position: purgatory.AnyPosition})
				assert.NoError(t, err)
				mine = append(mine, o)
				switch k := r.IntN(keys); r.IntN(12) {
				case 0, 1, 2, 3:
					p.CheckAndCompleteUpTo(k, levels[k].Add(1))
				case 4, 5:
					levels[k].Add(1)
					p.CheckAndComplete(k, (k+1)%keys)
				case 6:
					p.SignalUpTo(k, levels[k].Add(1))
				case 7:
					p.ForceComplete(mine[r.IntN(len(mine))])
				case 8:
					p.Cancel(mine[r.IntN(len(mine))], errGone)
				case 9:
					p.CancelForKey(k, errGone)
				case 10:
					p.Extend(mine[r.IntN(len(mine))], 0)
				case 11:
					p.AdvanceClock(1)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, mine...)
		})
	}
	group.Wait()
	for k := range keys { // the levels of the last positions
		levels[k].Add(10)
		p.CheckAndComplete(k)
	}
	eventually(t, p.Idle, "everybody is answered")
	for _, o := range all {
		require.EqualValues(t, 1, o.completed.Load())
	}
	assert.Zero(t, p.Causes())
	conserved(t, p)
	empty(t, p)
}
