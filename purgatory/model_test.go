package purgatory_test

import (
	"slices"
	"time"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/timer"
)

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
