package queue

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/timer"
)

// modelled is one that waits in the model, and what has become of the real one.
type modelled[T any] struct {
	w        *Waiter[T]
	at       Place
	deadline time.Duration
	called   int // how often its callback was
	item     T
	err      error
}

// lineModel is a queue that goes over everything: those who wait in order of arrival, and what is kept of each kind.
type lineModel[T any] struct {
	t     *testing.T
	q     *Queue[T]
	clock *timer.ManualTimer
	line  []*modelled[T]
	kept  map[string][]T
	back  map[string]int // how many of kept were put back
	out   int            // units that were taken, and not put back
	most  int
}

func (m *lineModel[T]) units() (n int) {
	for _, items := range m.kept {
		n += len(items)
	}
	return n
}

// first returns who is first in the line of a kind.
func (m *lineModel[T]) first(kind string) *modelled[T] {
	if i := slices.IndexFunc(m.line, func(r *modelled[T]) bool { return slices.Contains(r.at.Kinds, kind) }); i >= 0 {
		return m.line[i]
	}
	return nil
}

// served returns whether r can be served, and serves it.
func (m *lineModel[T]) served(r *modelled[T]) bool {
	for _, kind := range r.at.Kinds {
		if items := m.kept[kind]; m.first(kind) == r && len(items) >= r.at.N {
			m.kept[kind], m.back[kind] = items[r.at.N:], max(0, m.back[kind]-r.at.N)
			m.out += r.at.N
			m.ends(r, items[0], nil)
			return true
		}
	}
	return false
}

func (m *lineModel[T]) serve() {
	for slices.ContainsFunc(slices.Clone(m.line), m.served) {
	}
}

// ends takes r out of the line, and compares the end of the real one.
func (m *lineModel[T]) ends(r *modelled[T], item T, err error) {
	m.line = slices.DeleteFunc(m.line, func(other *modelled[T]) bool { return other == r })
	if r.w == nil { // a Take: its caller looks
		r.item, r.err, r.called = item, err, 1
		return
	}
	if r.w.Done() != nil {
		require.True(m.t, over(r.w), "it still waits")
		r.item, r.err = r.w.Result()
	} else {
		m.clock.AdvanceClock(0)
		require.Equal(m.t, 1, r.called)
	}
	require.ErrorIs(m.t, r.err, err)
	if err == nil {
		require.Equal(m.t, item, r.item)
	}
}

// step does something at random to both, and compares.
func (m *lineModel[T]) step(rng *rand.Rand, item T) {
	q, names := m.q, []string{"", "a", "b"}
	kind := names[rng.IntN(len(names))]
	n := 1
	if q.units {
		n += rng.IntN(3)
	}
	at := Place{Kinds: []string{kind}, N: n}
	switch rng.IntN(8) {
	case 0, 1:
		err := q.Put(item, at)
		if m.units()+n > m.most {
			require.ErrorIs(m.t, err, ErrFull)
			break
		}
		require.NoError(m.t, err)
		m.kept[kind] = append(m.kept[kind], slices.Repeat([]T{item}, n)...)
	case 2:
		at.N = 1
		handed, err := q.Hand(item, at)
		require.NoError(m.t, err)
		first := m.first(kind)
		require.Equal(m.t, first != nil && first.at.N <= len(m.kept[kind])+1, handed)
		if handed {
			m.kept[kind] = append(m.kept[kind], item)
		}
	case 3:
		err := q.PutBack(item, at)
		if n > m.out {
			require.ErrorIs(m.t, err, ErrInvalid)
			break
		}
		require.NoError(m.t, err)
		m.out -= n
		m.kept[kind] = slices.Insert(m.kept[kind], m.back[kind], slices.Repeat([]T{item}, n)...)
		m.back[kind] += n
	case 4:
		m.clock.AdvanceClock(time.Millisecond)
		for _, r := range slices.Clone(m.line) {
			if r.deadline <= m.clock.Now() {
				m.ends(r, item, ErrExpired)
			}
		}
	case 5:
		if len(m.line) > 0 {
			r := m.line[rng.IntN(len(m.line))]
			require.True(m.t, r.w.Stop())
			m.ends(r, item, ErrCancelled)
		}
	default:
		if rng.IntN(2) == 0 {
			at = Place{Kinds: slices.Clone(names[rng.IntN(2):]), N: 1}
		}
		r := &modelled[T]{at: at, deadline: m.clock.Now() + time.Duration(1+rng.IntN(20))*time.Millisecond}
		if rng.IntN(3) == 0 { // a try
			got, err := q.Take(background, 0, at)
			m.line = append(m.line, r)
			if !m.served(r) {
				m.ends(r, item, ErrExpired)
			}
			require.ErrorIs(m.t, err, r.err)
			if err == nil {
				require.Equal(m.t, r.item, got)
			}
			break
		}
		var done func(T, error)
		if rng.IntN(2) == 0 {
			done = func(got T, err error) { r.item, r.err = got, err; r.called++ }
		}
		w, err := q.Start(r.deadline-m.clock.Now(), done, at)
		require.NoError(m.t, err)
		r.w = w
		m.line = append(m.line, r)
	}
	m.serve()
	for _, r := range m.line {
		require.True(m.t, r.called == 0 && (r.w.Done() == nil || !over(r.w)), "it has ended, and has to wait")
	}
	require.Equal(m.t, m.units(), q.Stats().Items)
	check(m.t, q)
}

func followsTheModel[T any](t *testing.T, item func(n int) T) {
	for seed := range uint64(300) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 0))
			m := &lineModel[T]{t: t, kept: map[string][]T{}, back: map[string]int{}, most: 3 + rng.IntN(4)}
			m.q, m.clock = manual[T](t, WithMaxItems(m.most))
			for n := range 60 {
				m.step(rng, item(n))
			}
			left := m.units()
			require.Len(t, m.q.Close(nil), left)
			for _, r := range slices.Clone(m.line) {
				m.ends(r, item(0), ErrClosed)
			}
			check(t, m.q)
		})
	}
}

// Requests, units and items of several kinds, in every mixture: who waits gets what is there as soon as he is the first of its kind.
func TestAQueueFollowsItsModel(t *testing.T) {
	t.Run("items", func(t *testing.T) { followsTheModel(t, func(n int) int { return n }) })
	t.Run("units", func(t *testing.T) { followsTheModel(t, func(int) struct{} { return struct{}{} }) })
}
