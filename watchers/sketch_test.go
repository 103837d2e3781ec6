package watchers

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func newSketch(n int) *sketch[int] {
	s := new(sketch[int])
	s.init(n)
	return s
}

// TestSketchHoldsWhatIsFrequent is the promise of the space-saving algorithm: a key with more than 1/n of all events
// is there, however many other keys come by.
func TestSketchHoldsWhatIsFrequent(t *testing.T) {
	const n, events = 8, 100_000
	r := rand.New(rand.NewPCG(1, 2))
	s := newSketch(n)
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
	at := s.search(7, 7)
	require.GreaterOrEqual(t, at, 0)
	require.GreaterOrEqual(t, s.weights[at], int64(frequent), "it overestimates, never the other way")
	require.LessOrEqual(t, s.weights[at], int64(frequent+events/n))
	require.Greater(t, s.keys[at].Tries, int64(frequent)*99/100, "it was taken up early and kept")
}

func TestSketchTellsKeysWithEqualHashesApart(t *testing.T) {
	s := newSketch(4)
	s.count(1, 42, 1, 0).Watched++
	s.count(2, 42, 1, 0).Watched++
	s.count(1, 42, 1, 0).Watched++
	require.EqualValues(t, 2, s.find(1, 42).Watched)
	require.EqualValues(t, 1, s.find(2, 42).Watched)
	require.Nil(t, s.find(3, 42))
}

func TestSketchForgetsWhatWasHotLongAgo(t *testing.T) {
	s := newSketch(1)
	s.count(1, 1, 1_000_000, 0)
	s.count(2, 2, 1, time.Hour)
	s.count(2, 2, 1, time.Hour)
	require.Nil(t, s.find(1, 1))
	require.LessOrEqual(t, s.weights[0], int64(2), "an hour is 52 half-lives")
}
