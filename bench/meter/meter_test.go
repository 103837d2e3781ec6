package meter

import (
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestLatenessWaitsForEveryDeadline(t *testing.T) {
	const n = 2*stripes + 3
	l := NewLateness(n)
	for i := range n {
		assert.Equal(t, n-i, l.Left())
		select {
		case <-l.Done:
			t.Fatalf("done with %d unmet", n-i)
		default:
		}
		l.Due(i, 0)
		l.Met(i)
	}
	<-l.Done
	assert.Zero(t, l.Left())
}

func TestLatenessTellsEarlyFromLate(t *testing.T) {
	l := NewLateness(3)
	l.Due(0, time.Hour) // met an hour early
	l.Met(0)
	l.Due(1, -time.Second) // met a second late
	l.Met(1)
	assert.Equal(t, 1, l.Left())
	sorted := l.Sorted()
	assert.Len(t, sorted, 2, "what was not met has no lateness")
	assert.Equal(t, 1, Early(sorted))
	assert.Less(t, Quantile(sorted, 0), time.Duration(0))
	assert.GreaterOrEqual(t, Quantile(sorted, 1), time.Second)
	l.Due(2, 0)
	l.Met(2)
	<-l.Done
}

func TestQuantileOfNothing(t *testing.T) {
	assert.Zero(t, Quantile([]time.Duration{}, 0.99))
	assert.Zero(t, Early(nil))
}

func TestLoopCountsEveryOperation(t *testing.T) {
	var ran atomic.Int64
	rate := Loop(2, 0, 1000, func(_, n int) {
		ran.Add(int64(n))
	})
	assert.Positive(t, rate.Ops)
	assert.LessOrEqual(t, rate.Ops, ran.Load(), "the warm-up is not counted")
	assert.Positive(t, rate.NsPerOp)
	assert.Less(t, rate.AllocsPerOp, 0.5)
}

// The clock decides when a window is over, whatever a chunk takes.
func TestAWindowIsAsLongAsItSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		rate := Loop(2, 50*time.Millisecond, 3, func(int, int) { time.Sleep(time.Millisecond) })
		assert.Equal(t, 60*time.Millisecond, time.Since(began), "a fifth of it to warm up")
		assert.EqualValues(t, 2*50*3, rate.Ops)
		assert.InEpsilon(t, 1e6/6, rate.NsPerOp, 1e-9)
	})
}

var kept []byte

func TestLoopCountsAllocations(t *testing.T) {
	rate := Loop(1, 0, 100, func(_, n int) {
		for range n {
			kept = make([]byte, 100)
		}
	})
	assert.InDelta(t, 1, rate.AllocsPerOp, 0.1)
	assert.InDelta(t, 112, rate.BytesPerOp, 10, "a size class")
}

func TestLiveSeesWhatIsHeld(t *testing.T) {
	before := Live()
	held := make([]byte, 8<<20)
	after := Live()
	runtime.KeepAlive(held)
	assert.InDelta(t, 8<<20, float64(after)-float64(before), 1<<20)
}

func TestHoldIsLive(t *testing.T) {
	before := Live()
	held := Hold(8 << 20)
	after := Live()
	runtime.KeepAlive(held)
	assert.InDelta(t, 8<<20, float64(after)-float64(before), 2<<20)
}

// Each body's operations and allocations are its own.
func TestAlternateKeepsBodiesApart(t *testing.T) {
	var ran [2]int64
	var kept *[32]byte
	rates := Alternate(1, 0, 1000, // so many in each slice
		func(_, n int) {
			for ran[0] += int64(n); n > 0; n-- {
				kept = new([32]byte)
			}
		},
		func(_, n int) {
			ran[1] += int64(n)
			time.Sleep(2 * time.Millisecond)
		})
	runtime.KeepAlive(kept)
	for i, r := range rates {
		assert.Positive(t, r.Ops)
		assert.Less(t, r.Ops, ran[i], "the loop was warmed up before")
	}
	assert.InDelta(t, 1, rates[0].AllocsPerOp, 0.1)
	assert.Less(t, rates[1].AllocsPerOp, 0.5)
	assert.GreaterOrEqual(t, rates[1].NsPerOp, 2000.0)
}

func TestARateIsTheMeanOfItsSlices(t *testing.T) {
	var r Rate
	r.add(Cost{CPU: 1000, Mallocs: 100, Bytes: 400}, 100, 40)
	r.add(Cost{CPU: 9000, Mallocs: 900, Bytes: 7200}, 300, 80)
	assert.Equal(t, Rate{Ops: 400, NsPerOp: 70, CPUPerOp: 25, AllocsPerOp: 2.5, BytesPerOp: 19}, r)
}
