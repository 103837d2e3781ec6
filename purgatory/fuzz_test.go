package purgatory_test

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/timer"
)

// FuzzPurgatory reads a script from its input and plays it on a sequential model, and on
// purgatories that differ in shards, wheels and ticks, on manual clocks. After each step
// all agree on every operation's outcome, on the order of completions and on the counts.
func FuzzPurgatory(f *testing.F) {
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, script []byte) {
		s := &play{t: t, script: script, model: newModel(), strays: map[int]bool{}}
		for _, c := range []struct {
			watcherShards, wheelSize, timerShards, purgeInterval int
			tick                                                 time.Duration
		}{{1, 2, 1, 1000, time.Millisecond}, {2, 64, 2, 0, unit}, {16, 3, 4, 1, unit / 5}} {
			clock, err := timer.NewManualTimer(timer.WithTick(c.tick), timer.WithWheelSize(c.wheelSize), timer.WithShards(c.timerShards))
			require.NoError(t, err)
			w := &world{ops: map[int]*fuzzOp{}}
			w.p, err = purgatory.New[int]("fuzz", purgatory.WithTimer(clock), purgatory.WithWatcherShards(c.watcherShards),
				purgatory.WithPurgeInterval(c.purgeInterval), purgatory.WithMaxPending(mostPending))
			require.NoError(t, err)
			w.held = purgatory.HoldWorkers(t, w.p)
			s.worlds = append(s.worlds, w)
		}
		for steps := 0; len(s.script) > 0 && steps < 400; steps++ {
			s.step()
			s.compare()
		}
		s.close()
		s.compare()
		for _, w := range s.worlds {
			stats := conserved(t, w.p)
			require.EqualValues(t, len(s.model.ops), stats.Accepted)
			require.Zero(t, stats.Panics)
		}
	})
}

const (
	unit        = 20 * time.Millisecond // times are multiples: every tick gives the same outcomes
	mostPending = 25                    // of 3 keys each: one check is one batch
	fuzzKeys    = 4
)

func newModel() *model { return &model{} }

func childOf(o *waits) *waits { return &waits{id: -1 - o.id, at: o.at, need: o.need, child: -1} }

// world is a purgatory on which the script is played.
type world struct {
	p         *intPurgatory
	progress  [fuzzKeys]int64
	ops       map[int]*fuzzOp
	completed []int
	held      *purgatory.HeldWorkers
}

type fuzzOp struct {
	operation.DelayedOperation
	waits
	w         *world
	inside    bool
	callbacks int
}

func (o *fuzzOp) TryComplete() bool {
	if o.inside || o.callbacks > 0 {
		panic("TryComplete overlaps")
	}
	for i, at := range o.at {
		if o.w.progress[at.Key] < o.need[i] {
			return false
		}
	}
	return true
}

func (o *fuzzOp) OnComplete() {
	o.callbacks++
	o.w.completed = append(o.w.completed, o.id)
	if o.child >= 0 {
		_, _ = o.w.submit(childOf(&o.waits), o.child)
	}
}

func (o *fuzzOp) OnExpiration() { o.callbacks += 10 }

func (w *world) submit(o *waits, timeout time.Duration) (bool, error) {
	op := &fuzzOp{waits: *o, w: w}
	completed, err := w.p.TryCompleteElseWatchAt(op, timeout, o.at...)
	if err == nil {
		w.ops[o.id] = op
	}
	return completed, err
}

// play is the script, the model, and the worlds.
type play struct {
	t      *testing.T
	script []byte
	model  *model
	worlds []*world
	ids    int
	loose  bool // completions of this step come in no particular order

	// strays are the children that were submitted in such a step: they wait in no
	// particular order either. seen is how many operations were submitted before this step.
	strays map[int]bool
	seen   int
}

func (s *play) byte(n int) int {
	if len(s.script) == 0 {
		return 0
	}
	b := int(s.script[0])
	s.script = s.script[1:]
	return b % n
}

// all calls do in every world, and requires that it returns what the model returned.
func (s *play) all(want any, do func(w *world) any) {
	s.t.Helper()
	for i, w := range s.worlds {
		require.Equal(s.t, want, do(w), "world %d", i)
	}
}

func (s *play) timeout() time.Duration {
	return []time.Duration{0, -unit, unit, 2 * unit, 5 * unit, 17 * unit, 100 * unit, 5000 * unit, math.MaxInt64}[s.byte(9)]
}

// any returns an operation, pending or ended, or nil.
func (s *play) any() *waits {
	if len(s.model.ops) == 0 {
		return nil
	}
	return s.model.ops[len(s.model.ops)-1-s.byte(min(len(s.model.ops), 40))]
}

func (s *play) step() {
	m := s.model
	key, upTo := 0, int64(math.MaxInt64)
	switch command := s.byte(16); command {
	case 0, 1, 2, 3, 4:
		s.submit()
	case 5, 6: // a log advances, and a check up to its position follows
		key = s.byte(fuzzKeys)
		upTo = m.progress[key] + int64(s.byte(8))
		s.setProgress(key, upTo)
		s.all(m.check(key, upTo), func(w *world) any { return w.p.CheckAndCompleteUpTo(key, upTo) })
	case 7: // a log advances, and no check follows
		key = s.byte(fuzzKeys)
		s.setProgress(key, m.progress[key]+int64(s.byte(4)))
	case 8:
		key = s.byte(fuzzKeys)
		s.all(m.check(key, upTo), func(w *world) any { return w.p.CheckAndComplete(key) })
	case 9: // up to a position that has nothing to do with the log
		key, upTo = s.byte(fuzzKeys), int64(s.byte(40))
		s.all(m.check(key, upTo), func(w *world) any { return w.p.CheckAndCompleteUpTo(key, upTo) })
	case 10: // signals, and then the workers
		for range 1 + s.byte(3) {
			key, upTo = s.byte(fuzzKeys), int64(s.byte(60))
			for _, w := range s.worlds {
				w.p.SignalUpTo(key, upTo)
			}
			s.mark(key, upTo)
		}
		for _, k := range m.signals {
			m.check(k, m.upTo[k])
		}
		m.signals = nil
		for _, w := range s.worlds {
			w.held.Work()
		}
		s.loose = true // keys of different shards are taken in no order
	case 11:
		s.endOne(operation.Forced, nil, func(w *world, o *fuzzOp) any { return w.p.ForceComplete(o) })
	case 12:
		s.endOne(operation.Cancelled, errGone, func(w *world, o *fuzzOp) any { return w.p.Cancel(o, errGone) })
	case 13:
		key = s.byte(fuzzKeys)
		all := m.under(key, math.MaxInt64)
		m.end(all, operation.Cancelled, errGone)
		s.all(len(all), func(w *world) any { return w.p.CancelForKey(key, errGone) })
	case 14:
		if o := s.any(); o != nil {
			timeout := s.timeout()
			inTime := o.outcome == operation.Pending
			if inTime {
				o.deadline = timer.Deadline(m.now, timeout)
			}
			s.all(inTime, func(w *world) any { return w.p.Extend(w.ops[o.id], timeout) })
		}
	case 15:
		d := []time.Duration{0, unit, unit, 3 * unit, 10 * unit, 130 * unit, 6000 * unit}[s.byte(7)]
		m.advance(d)
		for _, w := range s.worlds {
			w.p.AdvanceClock(d)
		}
		s.loose = true // of one tick, in no order
		if s.byte(250) == 249 {
			s.close()
		}
	}
}

func (s *play) submit() {
	o := &waits{id: s.ids, child: -1}
	s.ids++
	for range 1 + s.byte(3) {
		at := purgatory.KeyPosition[int]{Key: s.byte(fuzzKeys), Position: purgatory.AnyPosition}
		need := s.model.progress[at.Key] + int64(s.byte(12)) - 1
		if s.byte(2) == 1 {
			at.Position = need
		}
		o.at, o.need = append(o.at, at), append(o.need, need)
	}
	timeout := s.timeout()
	if s.byte(3) == 0 {
		o.child = s.timeout()
	}
	completed, err := s.model.submit(o, timeout)
	for i, w := range s.worlds {
		done, e := w.submit(o, timeout)
		require.Equal(s.t, completed, done, "world %d", i)
		require.ErrorIs(s.t, e, err, "world %d", i)
	}
}

func (s *play) setProgress(key int, to int64) {
	s.model.progress[key] = to
	for _, w := range s.worlds {
		w.progress[key] = to
	}
}

// mark is a signal in the model. A key that no operation waits for is not marked.
func (s *play) mark(key int, upTo int64) {
	m := s.model
	waited := slices.ContainsFunc(m.ops, func(o *waits) bool {
		return o.outcome == operation.Pending && slices.ContainsFunc(o.at, func(at purgatory.KeyPosition[int]) bool { return at.Key == key })
	})
	if !waited {
		return
	}
	if !slices.Contains(m.signals, key) {
		m.signals, m.upTo[key] = append(m.signals, key), upTo
	}
	m.upTo[key] = max(m.upTo[key], upTo)
}

func (s *play) endOne(outcome operation.Outcome, cause error, do func(w *world, o *fuzzOp) any) {
	o := s.any()
	if o == nil {
		return
	}
	can := o.outcome == operation.Pending
	if can {
		s.model.end([]*waits{o}, outcome, cause)
	}
	s.all(can, func(w *world) any { return do(w, w.ops[o.id]) })
}

func (s *play) close() {
	m := s.model
	m.closed = true
	var open []*waits
	for _, o := range m.ops {
		if o.outcome == operation.Pending {
			open = append(open, o)
		}
	}
	m.end(open, operation.Closed, nil)
	s.all(nil, func(w *world) any { return w.p.Close() })
	s.loose = true
}

func (s *play) compare() {
	m := s.model
	var want struct{ pending, watched int }
	keys := map[int]bool{}
	for _, o := range m.ops {
		if o.outcome == operation.Pending {
			want.pending++
			want.watched += len(o.at)
			for _, at := range o.at {
				keys[at.Key] = true
			}
		}
	}
	for i, w := range s.worlds {
		if len(w.ops) != len(m.ops) {
			require.FailNow(s.t, "accepted", "world %d: %d, want %d", i, len(w.ops), len(m.ops))
		}
		for _, o := range m.ops {
			callbacks := 1
			switch o.outcome {
			case operation.Pending:
				callbacks = 0
			case operation.Expired:
				callbacks = 11
			}
			got := w.ops[o.id]
			if got == nil || got.Outcome() != o.outcome || got.callbacks != callbacks || !errors.Is(got.Cause(), o.cause) {
				require.FailNow(s.t, "outcome", "world %d: operation %d is %v, want %v (%v), with %d callbacks", i, o.id, got, o.outcome, o.cause, callbacks)
			}
		}
		a, b := m.completed, w.completed
		if s.loose || slices.ContainsFunc(a, func(id int) bool { return s.strays[id] }) {
			slices.Sort(a)
			slices.Sort(b)
		}
		if !slices.Equal(a, b) {
			require.Equal(s.t, a, b, "world %d: completions of this step", i)
		}
		w.completed = w.completed[:0]
		if w.p.NumDelayed() != want.pending || w.p.Watched() != want.watched || int(w.p.Stats().Keys) != len(keys) {
			require.FailNow(s.t, "counts", "world %d: %+v, want %+v and %d keys", i, w.p.Stats(), want, len(keys))
		}
	}
	for _, o := range m.ops[s.seen:] {
		if s.loose && o.id < 0 {
			s.strays[o.id] = true
		}
	}
	s.seen = len(m.ops)
	m.completed = m.completed[:0]
	s.loose = false
}

// waits is an operation in the model.
type waits struct {
	id       int
	at       []purgatory.KeyPosition[int]
	need     []int64 // of each key: the progress that it waits for
	deadline time.Duration
	outcome  operation.Outcome
	cause    error
	child    time.Duration // timeout of the operation that OnComplete submits; < 0: none
}

// model is the sequential model: it visits all operations in each step.
type model struct {
	now       time.Duration
	progress  [fuzzKeys]int64
	ops       []*waits
	completed []int // ids, in order, of this step
	signals   []int // marked keys, in order of their first mark
	upTo      [fuzzKeys]int64
	closed    bool
}

func (m *model) met(o *waits) bool {
	for i, at := range o.at {
		if m.progress[at.Key] < o.need[i] {
			return false
		}
	}
	return true
}

func (m *model) pending() (n int) {
	for _, o := range m.ops {
		if o.outcome == operation.Pending {
			n++
		}
	}
	return n
}

func (m *model) submit(o *waits, timeout time.Duration) (completed bool, err error) {
	switch {
	case m.closed:
		return false, purgatory.ErrClosed
	case m.pending() >= mostPending:
		return false, purgatory.ErrFull
	}
	o.deadline = timer.Deadline(m.now, timeout)
	m.ops = append(m.ops, o)
	if m.met(o) {
		m.end([]*waits{o}, operation.Satisfied, nil)
		return true, nil
	}
	return false, nil
}

func (m *model) end(all []*waits, outcome operation.Outcome, cause error) {
	for _, o := range all {
		o.outcome, o.cause = outcome, cause
	}
	for _, o := range all {
		m.completed = append(m.completed, o.id)
		if o.child >= 0 {
			_, _ = m.submit(childOf(o), o.child)
		}
	}
}

// under returns the operations that wait for key, up to a position, in the order of a check.
func (m *model) under(key int, upTo int64) (all []*waits) {
	type place struct {
		position int64
		o        *waits
	}
	var ordered []place
	for _, o := range m.ops {
		for _, at := range o.at {
			switch {
			case o.outcome != operation.Pending || at.Key != key:
			case at.Position == purgatory.AnyPosition:
				all = append(all, o)
			case at.Position <= upTo:
				ordered = append(ordered, place{at.Position, o})
			}
		}
	}
	slices.SortStableFunc(ordered, func(a, b place) int {
		switch {
		case a.position < b.position:
			return -1
		case a.position > b.position:
			return 1
		}
		return 0
	})
	for _, p := range ordered {
		all = append(all, p.o)
	}
	// An operation is in the list once, at its first place.
	var once []*waits
	for _, o := range all {
		if !slices.Contains(once, o) {
			once = append(once, o)
		}
	}
	return once
}

func (m *model) check(key int, upTo int64) int {
	met := slices.DeleteFunc(m.under(key, upTo), func(o *waits) bool { return !m.met(o) })
	m.end(met, operation.Satisfied, nil)
	return len(met)
}

func (m *model) advance(d time.Duration) {
	target := m.now + d
	for {
		var next *waits
		for _, o := range m.ops {
			if o.outcome == operation.Pending && o.deadline <= target && (next == nil || o.deadline < next.deadline) {
				next = o
			}
		}
		if next == nil {
			m.now = target
			return
		}
		m.now = max(m.now, next.deadline)
		m.end([]*waits{next}, operation.Expired, nil)
	}
}
