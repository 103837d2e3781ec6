package programs

import (
	"errors"
	"slices"
	"time"

	"github.com/delayedop/purgatory/purgatory"
)

// errStrange is the cause with which a purgatory cancels operations that are not its own.
var errStrange = errors.New("the cause of another purgatory")

// newAbroad makes the second purgatory. It has the clock of the first one, and nobody checks it or
// closes it before the end.
func (w *world) newAbroad() {
	t := purgatory.WithTimer(w.manual)
	if w.manual == nil {
		t = purgatory.WithTimer(w.system)
	}
	var err error
	w.abroad, err = purgatory.New[int]("abroad", t, purgatory.WithoutReaper(), set("watcherShards", 1),
		purgatory.WithWorkers(w.workers), purgatory.WithPanicHandler(w.panicked))
	if err != nil {
		panic(err)
	}
}

// travels reports whether a step registers operation i in the second purgatory.
func (p *program) travels(i int) bool {
	there := func(s step) bool { return s.verb == vAbroad && s.op == i }
	return p.foreign && (slices.ContainsFunc(p.goroutines, func(steps []step) bool { return slices.ContainsFunc(steps, there) }) ||
		slices.ContainsFunc(p.ops, func(o op) bool {
			return slices.ContainsFunc(slices.Concat(o.inTry, o.inDone), func(r reaction) bool { return there(r.step) })
		}))
}

// stranger hands an operation of the first purgatory to the second one, which must not touch it.
func (w *world) stranger(o *waiter, n int) {
	if w.abroad == nil || o.travels {
		return
	}
	did := false
	switch n % 3 {
	case 0:
		did = w.abroad.ForceComplete(o)
	case 1:
		did = w.abroad.Cancel(o, errStrange)
	case 2:
		did = w.abroad.Extend(o, time.Hour)
	}
	if did {
		w.fault("o%d: another purgatory has changed it", o.id)
	}
}

// judgeAbroad checks the second purgatory at rest.
func (w *world) judgeAbroad() {
	if w.abroad == nil {
		return
	}
	pending, unknown := 0, 0
	for _, o := range w.waiters {
		switch {
		case o.completed > 0 || !o.travels:
		case o.abroad:
			pending++
		case !o.accepted && o.returned < len(o.begun):
			unknown++
		}
	}
	if n := w.abroad.NumDelayed(); n < pending || n > pending+unknown {
		w.fault("abroad: %d pending, must be %d (and up to %d more)", n, pending, unknown)
	}
}

// closeAbroad closes the second purgatory, and checks that nothing is left of it.
func (w *world) closeAbroad() {
	if w.abroad == nil {
		return
	}
	_ = w.abroad.Close()
	accepted, unknown := 0, 0
	for _, o := range w.waiters {
		if o.abroad {
			accepted++
		} else if o.travels && !o.accepted && o.completed > 0 {
			unknown++
		}
	}
	if s := w.abroad.Stats(); s.Pending != 0 || s.Watched != 0 || int(s.Accepted) < accepted || int(s.Accepted) > accepted+unknown {
		w.fault("abroad: %d pending, %d watched, %d accepted: must be 0, 0 and %d", s.Pending, s.Watched, s.Accepted, accepted)
	}
}
