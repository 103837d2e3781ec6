package purgatory

import (
	"time"

	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/watchers"
)

const (
	// batchSize is how many operations a walk ends before it runs their callbacks: see
	// docs/internals/decisions.md#batches-of-128.
	batchSize = 128
	// maxInRow bounds how often a holder tries one operation in a row: one whose TryComplete checks its own key asks for
	// that for ever. Then another walk tries it.
	maxInRow = 8
)

// walk tries the operations that wait for a key, a group at a time. Those that end leave their lists and the timer
// with their group. Their callbacks run when a batch of them has ended, or the walk is over: all tries of a batch come
// before its first callback.
type walk[K comparable] struct {
	*watchers.Visit[K]
	at    int           // Group[at:N] is still to be visited
	tries int           // of Group
	ops   machine.Group // ops[:ends] are those of Group that end
	ends  int
	batch ending[K] // operations whose callbacks are to be run
	ended int
}

// check tries what waits for the key of at up to its position, and returns how many it has ended.
func (p *Purgatory[K]) check(at watchers.Wait[K]) (ended int) {
	if h := p.cfg.hook; h != nil {
		h.Called(at.Key, at.Position, false)
	}
	v, _ := p.watchers.Ask(at, true)
	if v == nil {
		return 0
	}
	w := walk[K]{Visit: v, batch: ending[K]{p: p, visit: v}}
	w.run()
	return w.ended
}

// run takes the walk from where it stands to its end, also if user code calls runtime.Goexit.
func (w *walk[K]) run() {
	p, key, over := w.batch.p, w.Key, false
	p.walks(1, key)
	defer func() {
		p.walks(-1, key)
		if !over {
			w.run()
		}
	}()
	var yielded time.Time // see sched.GiveWay
	for on := true; on; {
		for w.N > 0 {
			for !w.visit() {
			}
			ops, full := w.ops[:w.ends], w.batch.n+w.ends > batchSize-len(w.ops)
			w.Next(ops, w.tries, full)
			w.at, w.tries, w.ends = 0, 0, 0
			w.ended += len(ops)
			p.entries.CancelAll(entriesOf(ops))
			w.batch.settle(ops, nil)
			clear(ops) // a callback may block: it must not keep them in memory
		}
		w.batch.answerAll()
		if w.batch.n > batchSize-len(w.ops) { // the goroutines that a herd of waits wakes run before more become runnable
			yielded = sched.GiveWay(yielded)
		}
		w.batch.n, w.batch.last = 0, nil // a later try may block
		on = w.Resume()
	}
	over = true
}

// visit tries the operations of the group, and reports whether it is over: not after a panic of a TryComplete. That is
// no yes, and neither is a runtime.Goexit, after which the deferred function of run goes on.
func (w *walk[K]) visit() (over bool) {
	var m *machine.Machine
	defer func() {
		if over {
			return
		}
		if v := recover(); v != nil {
			w.batch.p.records.Panic(v, m.Operation(), "TryComplete", w.Key)
		}
		if w.batch.p.release(m, w.Wait) {
			w.ops[w.ends] = m
			w.ends++
		}
	}()
	for w.at < w.N {
		m = w.Group[uint(w.at)%uint(len(w.Group))]
		w.at++
		if !m.Acquire() {
			continue // its holder tries it again
		}
		w.tries++
		if m.Try() || !m.ReleaseUnmarked() && w.batch.p.letGo(m, w.Wait) {
			w.ops[uint(w.ends)%uint(len(w.ops))] = m
			w.ends++
		}
	}
	return true
}

func (p *Purgatory[K]) walks(n int, key K) {
	if h := p.cfg.hook; h != nil {
		h.Walk(key, n)
	}
}

// letGo releases m, which has said no and waits at one of its keys, or tries it again when others have asked for that.
// It reports whether its holder has to end m.
func (p *Purgatory[K]) letGo(m *machine.Machine, at watchers.Wait[K]) (end bool) {
	for range maxInRow - 1 {
		end, again := m.Release(true)
		if !again {
			return end
		}
		if m.Try() {
			return true
		}
	}
	return p.release(m, at)
}

// release releases m, which its holder will not try again: if others have asked for a try, a walk makes it. It reports
// whether the holder has to end m, because of a wish.
func (p *Purgatory[K]) release(m *machine.Machine, at watchers.Wait[K]) (end bool) {
	end, again := m.Release(false)
	if again {
		p.watchers.Ask(at, false)
	}
	return end
}
