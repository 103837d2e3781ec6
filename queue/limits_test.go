package queue

import (
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/timer"
)

const years = 100 * 365 * 24 * time.Hour

// fine returns a queue on a clock whose ticks are as short as they can be.
func fine[T any](t *testing.T, options ...Option) (*Queue[T], *timer.ManualTimer) {
	t.Helper()
	clock, err := timer.NewManualTimer(timer.WithTick(1))
	require.NoError(t, err)
	return newQueue[T](t, append(options, WithTimer(clock))...), clock
}

// limits says what each option does at its limit, one before and one after it, and at the least and the most that it takes.
var limits = map[string]func(t *testing.T){
	"WithTimer": func(t *testing.T) {
		clock, err := timer.NewManualTimer(timer.WithMaxPending(1))
		require.NoError(t, err)
		q := newQueue[int](t, WithTimer(clock))
		w, err := q.Start(years, nil)
		require.NoError(t, err)
		_, err = q.Start(years, nil)
		require.ErrorIs(t, err, ErrFull)
		require.True(t, w.Stop())
		_, err = q.Start(years, nil)
		require.NoError(t, err)
		for _, none := range []timer.Timer{nil, (*timer.ManualTimer)(nil), (*timer.SystemTimer)(nil)} {
			_, err = New[int](WithTimer(none))
			require.ErrorIs(t, err, ErrInvalid)
		}
	},
	"WithMaxWaiting": func(t *testing.T) {
		for _, n := range []int{math.MinInt, -1, 0} {
			_, err := New[int](WithMaxWaiting(n))
			require.ErrorIs(t, err, ErrInvalid)
		}
		for _, n := range []int{1, 2, 3, math.MaxInt} {
			q, _ := manual[int](t, WithMaxWaiting(n))
			for i := range min(n, 5) { // a request takes one place, for how many kinds ever it waits
				started(t, q, Place{Kinds: []string{"", "a", "b"}[:1+i%3]})
			}
			_, err := q.Take(background, 0)
			require.ErrorIs(t, err, ErrExpired, "who does not wait takes no place")
			w, err := q.Start(timer.Never, nil)
			if n == math.MaxInt {
				require.NoError(t, err)
				require.True(t, w.Stop())
				continue
			}
			require.ErrorIs(t, err, ErrFull)
			require.NoError(t, q.Put(1))
			started(t, q) // there is a place again
			_, err = q.Start(timer.Never, nil)
			require.ErrorIs(t, err, ErrFull)
			check(t, q)
		}
		for n, of := range map[int]int{1: 1, 2: 1, 3: 2, 4: 2, 5: 3, math.MaxInt: 6} { // a tenant may have no more than places are left
			q, _ := manual[int](t, WithMaxWaiting(n))
			accepted := 0
			for range 6 {
				if _, err := q.Start(timer.Never, nil, Place{Tenant: "a"}); err == nil {
					accepted++
				}
			}
			assert.Equal(t, of, accepted, "of %d", n)
			check(t, q)
		}
	},
	"WithMaxItems": func(t *testing.T) {
		for _, n := range []int{math.MinInt, -1, 0} {
			_, err := New[int](WithMaxItems(n))
			require.ErrorIs(t, err, ErrInvalid)
		}
		one := struct{}{}
		for _, n := range []int{1, 2, 3, math.MaxInt - 1, math.MaxInt} {
			q, _ := manual[struct{}](t, WithMaxItems(n))
			if n < math.MaxInt {
				require.ErrorIs(t, q.Put(one, Place{N: n + 1}), ErrInvalid)
				_, err := q.Take(background, 0, Place{N: n + 1})
				require.ErrorIs(t, err, ErrInvalid)
			}
			for _, units := range []int{n - 1, 1} {
				if units > 0 {
					require.NoError(t, q.Put(one, Place{N: units}))
				}
			}
			require.ErrorIs(t, q.Put(one), ErrFull)
			require.ErrorIs(t, q.Put(one, Place{N: n}), ErrFull)
			require.ErrorIs(t, q.PutBack(one), ErrInvalid, "nothing is taken")
			_, err := q.Take(background, 0, Place{N: n})
			require.NoError(t, err)
			require.NoError(t, q.PutBack(one, Place{N: n}))
			require.ErrorIs(t, q.PutBack(one, Place{N: n}), ErrInvalid)
			assert.Equal(t, n, q.Stats().Items)
			check(t, q)
		}
	},
	"WithMaxAge": func(t *testing.T) {
		for _, d := range []time.Duration{math.MinInt64, -1, 0} {
			_, err := New[int](WithMaxAge(d))
			require.ErrorIs(t, err, ErrInvalid)
		}
		for _, age := range []time.Duration{1, 2, time.Second, years} {
			for timeout, want := range map[time.Duration]error{age - 1: ErrExpired, age: ErrExpired, age + 1: ErrStale, timer.Never - 1: ErrStale, timer.Never: ErrStale} {
				q, clock := fine[int](t, WithMaxAge(age))
				w, err := q.Start(timeout, nil)
				if timeout == 0 {
					require.ErrorIs(t, err, want)
					continue
				}
				require.NoError(t, err)
				ends := min(age, timeout)
				clock.AdvanceClock(ends - 1)
				require.False(t, over(w), "%v of %v", timeout, age)
				clock.AdvanceClock(1)
				fails(t, w, want)
				check(t, q)
			}
		}
		for _, age := range []time.Duration{math.MaxInt64 - 1, math.MaxInt64} {
			q, clock := manual[int](t, WithMaxAge(age))
			clock.AdvanceClock(time.Hour)
			for _, timeout := range []time.Duration{age - 1, age, timer.Never} {
				w, err := q.Start(timeout, nil)
				require.NoError(t, err)
				clock.AdvanceClock(time.Hour)
				require.False(t, over(w))
				require.NoError(t, q.Put(1))
				gets(t, w, 1)
			}
		}
	},
	"WithAging": func(t *testing.T) {
		for _, d := range []time.Duration{math.MinInt64, -1, 0} {
			_, err := New[int](WithAging(d))
			require.ErrorIs(t, err, ErrInvalid)
		}
		for _, class := range []int{math.MinInt, -1, classes, math.MaxInt} {
			q, _ := manual[int](t, WithAging(1))
			_, err := q.Start(timer.Never, nil, Place{Class: class})
			require.ErrorIs(t, err, ErrInvalid)
			require.ErrorIs(t, q.Put(1, Place{Class: class}), ErrInvalid)
		}
		for _, handicap := range []time.Duration{1, 2, time.Second, longestAging} {
			for class := 1; class < classes; class++ {
				for _, later := range []time.Duration{-1, 0, 1} { // than the handicap of the class
					q, clock := fine[int](t, WithAging(handicap))
					low := started(t, q, Place{Class: class})
					clock.AdvanceClock(time.Duration(class)*handicap + later)
					high := started(t, q)
					require.NoError(t, q.Put(1))
					assert.Equal(t, later > 0, over(low), "class %d × %v, %v later", class, handicap, later)
					assert.Equal(t, later <= 0, over(high))
				}
			}
		}
	},
	"WithNewestFirst": func(t *testing.T) {
		for _, c := range []struct{ takers, items bool }{{}, {true, false}, {false, true}, {true, true}} {
			q, _ := manual[int](t, WithNewestFirst(c.takers, c.items))
			for i := range 3 {
				require.NoError(t, q.Put(i))
			}
			first, err := q.Take(background, 0)
			require.NoError(t, err)
			assert.Equal(t, c.items, first == 2, "items: %v", first)
			require.Len(t, q.Close(nil), 2)

			q, _ = manual[int](t, WithNewestFirst(c.takers, c.items))
			oldest := started(t, q)
			started(t, q)
			newest := started(t, q)
			require.NoError(t, q.Put(1))
			assert.Equal(t, c.takers, over(newest))
			assert.Equal(t, !c.takers, over(oldest))
			_, err = q.Start(timer.Never, nil, Place{Class: classes - 1})
			assert.Equal(t, c.takers || c.items, err == nil, "classes are allowed: %v", err)
		}
	},
}

// Each option of the package is in the table: a new one has to say what it does at its limits.
func TestEachOptionAtItsLimits(t *testing.T) {
	files, err := os.ReadDir(".")
	require.NoError(t, err)
	found := 0
	for _, file := range files {
		if !strings.HasSuffix(file.Name(), ".go") || strings.HasSuffix(file.Name(), "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file.Name(), nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range parsed.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "With") {
				found++
				assert.NotNil(t, limits[f.Name.Name], "%s has no row", f.Name.Name)
			}
		}
	}
	assert.Len(t, limits, found)
	for name, row := range limits {
		t.Run(name, row)
	}
}

// The numbers that a place and a request take, at their limits.
func TestEachArgumentAtItsLimits(t *testing.T) {
	one := struct{}{}
	t.Run("N", func(t *testing.T) {
		for _, n := range []int{math.MinInt, -1} {
			q, _ := manual[struct{}](t)
			require.ErrorIs(t, q.Put(one, Place{N: n}), ErrInvalid)
			_, err := q.Take(background, 0, Place{N: n})
			require.ErrorIs(t, err, ErrInvalid)
		}
		q, _ := manual[struct{}](t)
		require.NoError(t, q.Put(one, Place{N: math.MaxInt}))
		require.ErrorIs(t, q.Put(one), ErrFull)
		assert.Equal(t, math.MaxInt, q.Stats().Items)
		_, err := q.Take(background, 0)
		require.NoError(t, err)
		require.NoError(t, q.Put(one))
		_, err = q.Take(background, 0, Place{N: math.MaxInt})
		require.NoError(t, err)
		check(t, q)
	})
	t.Run("units that come back from Close", func(t *testing.T) {
		q, _ := manual[struct{}](t)
		require.NoError(t, q.Put(one, Place{N: math.MaxInt - 7}))
		require.NoError(t, q.Put(one, Place{N: 7, Kinds: []string{"others"}}))
		assert.Equal(t, math.MaxInt, len(q.Close(nil)), "at once") //nolint:testifylint // Len would print them
		check(t, q)
	})
	t.Run("units that are put back beside as many others", func(t *testing.T) {
		q, _ := manual[struct{}](t)
		require.NoError(t, q.Put(one, Place{N: math.MaxInt}))
		_, err := q.Take(background, 0)
		require.NoError(t, err)
		require.NoError(t, q.Put(one))
		require.ErrorIs(t, q.PutBack(one), ErrInvalid, "they can't be counted")
		assert.Equal(t, math.MaxInt, q.Stats().Items)
		check(t, q)
	})
	t.Run("Cost", func(t *testing.T) {
		for _, cost := range []float64{-1, math.Inf(1), math.Inf(-1), math.NaN()} {
			q, _ := manual[int](t)
			_, err := q.Start(timer.Never, nil, Place{Cost: cost})
			require.ErrorIs(t, err, ErrInvalid)
		}
		for _, cost := range []float64{math.SmallestNonzeroFloat64, 1, math.MaxFloat64} {
			q, _ := manual[int](t)
			byTenant := map[string][]*Waiter[int]{}
			for _, tenant := range []string{"a", "b"} {
				for range 8 {
					byTenant[tenant] = append(byTenant[tenant], started(t, q, Place{Tenant: tenant, Cost: cost}))
				}
			}
			for i := range 8 { // equal shares
				require.NoError(t, q.Put(i))
				require.NoError(t, q.Put(i))
				gets(t, byTenant["a"][i], i)
				gets(t, byTenant["b"][i], i)
				check(t, q)
			}
		}
	})
	t.Run("timeout", func(t *testing.T) {
		for _, timeout := range []time.Duration{math.MinInt64, -1, 0, 1, timer.Never - 1, timer.Never} {
			q, clock := fine[int](t)
			clock.AdvanceClock(time.Hour)
			w, err := q.Start(timeout, nil)
			if timeout <= 0 {
				require.ErrorIs(t, err, ErrExpired)
				continue
			}
			require.NoError(t, err)
			require.False(t, over(w))
			clock.AdvanceClock(1)
			assert.Equal(t, timeout == 1, over(w))
			clock.AdvanceClock(years)
			assert.Equal(t, timeout == 1, over(w))
			check(t, q)
		}
	})
}
