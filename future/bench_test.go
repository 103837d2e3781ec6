package future

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/purgatory"
)

// BenchmarkQuorum2Of3 measures what a quorum of 2 of 3 costs beyond the replicas' work.
// In the first case the goroutine that makes the future also delivers. In the other two
// a second goroutine delivers and the first one waits: for a future, and for what one
// would write by hand, a channel and a time.NewTimer.
func BenchmarkQuorum2Of3(b *testing.B) {
	b.Run("future/callback", func(b *testing.B) {
		p := newBenched(b)
		b.ReportAllocs()
		for id := uint64(0); b.Loop(); id++ {
			ended := false
			f, err := GatherFunc(p, time.Minute, Quorum(2, 3), func([]Result[int], error) { ended = true }, id)
			if err != nil {
				b.Fatal(err)
			}
			for from := range 3 {
				f.Deliver(from, from, nil)
			}
			if !ended {
				b.Fatal("two of three have been delivered")
			}
		}
	})
	b.Run("future/wait", func(b *testing.B) {
		p := newBenched(b)
		b.ReportAllocs()
		for id := uint64(0); b.Loop(); id++ {
			f, err := Gather[int](p, time.Minute, Quorum(2, 3), id)
			if err != nil {
				b.Fatal(err)
			}
			go func() {
				for from := range 3 {
					f.Deliver(from, from, nil)
				}
			}()
			if _, err := f.Wait(context.Background()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("channel+NewTimer/wait", func(b *testing.B) {
		ctx := b.Context()
		b.ReportAllocs()
		for b.Loop() {
			results := make(chan Result[int], 3)
			go func() {
				for from := range 3 {
					results <- Result[int]{From: from, Value: from}
				}
			}()
			timeout := time.NewTimer(time.Minute)
			got := make([]Result[int], 0, 3)
			for len(got) < 2 {
				select {
				case r := <-results:
					got = append(got, r)
				case <-timeout.C:
					b.Fatal("timed out")
				case <-ctx.Done():
					b.Fatal(ctx.Err())
				}
			}
			timeout.Stop()
		}
	})
}

func newBenched(b *testing.B) *purgatory.Purgatory[uint64] {
	b.Helper()
	p, err := purgatory.New[uint64]("futures")
	require.NoError(b, err)
	b.Cleanup(func() { p.Close() })
	return p
}
