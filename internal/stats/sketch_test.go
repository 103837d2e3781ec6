package stats

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The space-saving algorithm promises that a sketch of n keys has every key with more than 1/n
// of all events, however many other keys come by.
func TestSketchKeepsEveryFrequentKey(t *testing.T) {
	const n, events = 8, 100_000
	r := rand.New(rand.NewPCG(1, 2))
	s := newSketch[int](n)
	frequent := 0
	for i := range events {
		key := 1000 + i
		if r.IntN(5) == 0 {
			key = 7
			frequent++
		}
		s.count(key, uint64(key), 1, 0).Tries++
	}
	require.Len(t, s.keys, n)
	counts := s.find(7, 7)
	require.NotNil(t, counts)
	require.GreaterOrEqual(t, counts.Weight, int64(frequent), "it overestimates, never the other way")
	require.LessOrEqual(t, counts.Weight, int64(frequent+events/n))
	require.Greater(t, counts.Tries, int64(frequent)*99/100, "it was taken up early and kept")
}

func TestSketchKeepsKeysWithEqualHashesApart(t *testing.T) {
	s := newSketch[int](4)
	s.count(1, 42, 1, 0).Watched++
	s.count(2, 42, 1, 0).Watched++
	s.count(1, 42, 1, 0).Watched++
	require.EqualValues(t, 2, s.find(1, 42).Watched)
	require.EqualValues(t, 1, s.find(2, 42).Watched)
	require.Nil(t, s.find(3, 42))
}

func TestSketchForgetsOldHotKeys(t *testing.T) {
	s := newSketch[int](1)
	s.count(1, 1, 1_000_000, 0)
	s.count(2, 2, 1, time.Hour)
	s.count(2, 2, 1, time.Hour)
	require.Nil(t, s.find(1, 1))
	require.LessOrEqual(t, s.keys[0].Weight, int64(2), "an hour is 52 half-lives")
}

// Weights halve once in a half-life, however often the sketch is used, and also if a caller
// passes an earlier time.
func TestSketchHalvesOnceAHalfLife(t *testing.T) {
	const later = time.Duration(1) << halfLife
	s := newSketch[int](2)
	for _, step := range []struct {
		now  time.Duration
		want int64
	}{
		{0, 1},
		{later - 1, 2},
		{0, 3},
		{later, 2},
		{later, 3},
		{0, 4},
		{3 * later, 2},
		{3*later + 1, 3},
		{later, 4},
		{5 * later, 2},
		{200 * later, 1},
	} {
		s.count(1, 1, 1, step.now)
		require.Equal(t, step.want, s.keys[0].Weight, "at %v", step.now)
	}
}

// A new key takes the place of the lightest one, but only if there is no room.
func TestAFullSketchReplacesItsLightestKey(t *testing.T) {
	s := newSketch[int](4)
	for key, weight := range []int64{7, 5, 2, 3} {
		s.count(key, uint64(key), weight, 0)
	}
	s.count(9, 9, 2, time.Second)
	require.Nil(t, s.find(2, 2))
	require.Equal(t, time.Second, s.find(9, 9).Since)
	for i, weight := range []int64{7, 5, 4, 3} {
		require.Equal(t, weight, s.keys[i].Weight, "who comes takes over the weight")
	}
	s.count(8, 8, 1, 0)
	require.Nil(t, s.find(3, 3))
	for _, key := range []int{0, 1, 9, 8} {
		require.NotNil(t, s.find(key, uint64(key)))
	}
}

func TestPlacesForKeysAreDividedAmongShards(t *testing.T) {
	for keys, each := range map[int]int{512: 8, 513: 9, 576: 9, 1: minKeys} {
		ob := NewObserver[int](Config{Keys: keys}, 64)
		require.Equal(t, each, cap(ob.hot.keys), "%d keys", keys)
		require.Equal(t, each, cap(ob.expiring.keys))
	}
}
