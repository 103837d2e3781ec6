package main

import (
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/purgatory"
)

func marks(every time.Duration, n int64, spans ...[2]time.Duration) (marks []mark) {
	done := int64(0)
	for _, span := range spans {
		for at := span[0]; at <= span[1]; at += every {
			marks = append(marks, mark{at, done})
			done += n
		}
	}
	return marks
}

// A slice counts if every stream goes on in it, and its rate is that of what was done in it.
func TestASliceInWhichAStreamStandsStillDoesNotCount(t *testing.T) {
	const step = slice / 10
	steady := stream{marks: marks(step, 10, [2]time.Duration{0, 20 * slice})}
	stopped := stream{marks: marks(step, 30, [2]time.Duration{0, 5 * slice}, [2]time.Duration{8 * slice, 20 * slice})}
	of := func(streams map[int][]stream) window {
		w := window{took: 20 * slice}
		w.slice(streams)
		return w
	}
	both := of(map[int][]stream{0: {steady}, 1: {stopped}})
	for _, at := range []int64{5, 6, 7, 8} {
		assert.False(t, both.counts[at], "slice %d", at)
	}
	assert.True(t, both.counts[3])
	assert.True(t, both.counts[12])
	for _, rate := range both.rates {
		assert.InEpsilon(t, 400/slice.Seconds(), rate, 0.01)
	}
	together := of(map[int][]stream{0: {steady, stopped}})
	assert.True(t, together.counts[6], "one stands in for the other")
	assert.Empty(t, of(map[int][]stream{0: {steady}, 1: {{}}}).rates, "a stream that has done nothing stands still")
}

func TestTheWordOfALockIsRead(t *testing.T) {
	var mu sync.Mutex
	word := mutexWord(unsafe.Pointer(&mu))
	assert.False(t, word.held())
	mu.Lock()
	assert.True(t, word.held())
	assert.False(t, word.starving())
	mu.Unlock()
	assert.False(t, word.held())
}

// The word that is found in a purgatory is that of the lock that its operations take.
func TestTheLockOfAShardIsFound(t *testing.T) {
	c := newCrowd(1)
	defer c.end()
	word := shardLock(c.p)
	var over atomic.Bool
	defer over.Store(true)
	go func() {
		for !over.Load() {
			c.p.Waiting(hotKey)
		}
	}()
	held := false
	for begun := time.Now(); !held && time.Since(begun) < time.Minute; {
		runtime.Gosched()
		held = word.held()
	}
	assert.True(t, held)
}

func TestAPurgatoryWithoutAShardHasNoLock(t *testing.T) {
	p, err := purgatory.New[string]("empty")
	require.NoError(t, err)
	assert.Panics(t, func() { shardLock(p) })
}

// Every row of the matrix does something with one processor and with two, and can be ended.
func TestEveryLoadRuns(t *testing.T) {
	for _, l := range loads() {
		for _, procs := range []int{1, 2} {
			w := l.make(procs)
			streams, _ := perform(w.goroutines, 3, func(*atomic.Bool) {}, w.run)
			w.end()
			done := int64(0)
			for _, s := range streams {
				done += s.n
			}
			assert.GreaterOrEqual(t, done, int64(2), "%s, %d", l.name, procs)
		}
	}
}

// A line that does not move in time, as on a machine whose processors are busy, keeps nobody waiting.
func TestTheTimeOfALineIsBounded(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	_, ok := timeLine(20 * time.Millisecond) // in which two goroutines on one processor take two turns, not 400
	assert.False(t, ok)
	var said strings.Builder
	writeModel(&said, matrix{Processors: 2})
	assert.Contains(t, said.String(), "measure it again")
}

func TestAMatrixIsReadAsItWasWritten(t *testing.T) {
	m := matrix{
		CPU: "a cpu", Go: "go1.25", OS: "linux/amd64", Revision: "1234", Date: "2026-11-28", Processors: 2, Line: 50,
		Rows: []row{{"P1", 1, 2e6, 0.01, 200}, {"P1", 2, 3e6, 0.1, 150}, {"apart", 1, 2e6, 0, 180}, {"apart", 2, 3.8e6, 0, 170}},
	}
	name := filepath.Join(t.TempDir(), "folder", "cores.json")
	require.NoError(t, m.save(name))
	read, err := readMatrix(name)
	require.NoError(t, err)
	assert.Equal(t, m, read)
	var table, simulated strings.Builder
	read.write(&table)
	assert.Contains(t, table.String(), "P1")
	writeModel(&simulated, read, 4)
	for _, cores := range []string{"P1", "4 cores, 256 shards", "The model is wrong if"} {
		assert.Contains(t, simulated.String(), cores)
	}
}
