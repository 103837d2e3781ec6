package purgatory_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// line is a queue whose items are alike. One goroutine makes all calls, so that it needs no lock.
type line struct {
	p     *purgatory.DelayedOperationPurgatory[int]
	items int
}

// inLine is an operation that waits for one item of a line.
type inLine struct {
	operation.DelayedOperation
	line *line
}

func (o *inLine) TryComplete() bool {
	if o.line.items == 0 {
		return false
	}
	o.line.items--
	return true
}

func (o *inLine) OnComplete()   {}
func (o *inLine) OnExpiration() {}

func newLine(b *testing.B, n int) *line {
	p, err := purgatory.New[int]("line", purgatory.WithFirstInFirstOut())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = p.Close() })
	l := &line{p: p}
	l.join(b, n)
	return l
}

// join lets n operations wait. In memory they have another order than in the line, as in a
// server that has been running for a while.
func (l *line) join(b *testing.B, n int) {
	some := make([]*inLine, n)
	for i := range some {
		some[i] = &inLine{line: l}
	}
	rand.Shuffle(n, func(i, j int) { some[i], some[j] = some[j], some[i] })
	for _, o := range some {
		if _, err := l.p.TryCompleteElseWatch(o, hour, 0); err != nil {
			b.Fatal(err)
		}
	}
}

// put puts n items one at a time, each followed by a check, and returns how long that took and
// how many tries it made.
func (l *line) put(n int) (took time.Duration, tries int64) {
	before, began := l.p.Stats().Checks, time.Now()
	for range n {
		l.items++
		l.p.CheckAndCompleteInOrder(0)
	}
	took = time.Since(began)
	return took, l.p.Stats().Checks - before
}

// BenchmarkItemInOrder is one item for one of n operations that wait. What joins the line
// afterwards is in ns/op, and not in ns/item.
//
//	go test -run '^$' -bench InOrder ./purgatory
func BenchmarkItemInOrder(b *testing.B) {
	for _, n := range []int{1, 1_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprintf("waiting=%d", n), func(b *testing.B) {
			l := newLine(b, n)
			var took time.Duration
			var tries int64
			b.ResetTimer()
			for done := 0; done < b.N; {
				some := min(n, 1000, b.N-done)
				d, t := l.put(some)
				l.join(b, some)
				took, tries, done = took+d, tries+t, done+some
			}
			b.ReportMetric(float64(took.Nanoseconds())/float64(b.N), "ns/item")
			b.ReportMetric(float64(tries)/float64(b.N), "tries/item")
		})
	}
}

// BenchmarkLineInOrder is an item for each of 100,000 operations that wait, one at a time.
func BenchmarkLineInOrder(b *testing.B) {
	const n = 100_000
	var took time.Duration
	var tries int64
	for range b.N {
		l := newLine(b, n)
		d, t := l.put(n)
		if left := l.p.NumDelayed(); left > 0 {
			b.Fatalf("%d still wait", left)
		}
		took, tries = took+d, tries+t
	}
	b.ReportMetric(float64(took.Milliseconds())/float64(b.N), "ms/line")
	b.ReportMetric(float64(tries)/float64(n*b.N), "tries/item")
}
