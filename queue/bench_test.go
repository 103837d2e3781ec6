package queue

import (
	"fmt"
	"testing"
	"time"

	"github.com/delayedop/purgatory/timer"
)

// A free unit, or a free item, is taken and put back.
func BenchmarkFree(b *testing.B) {
	b.Run("units", func(b *testing.B) { takeAndPut(b, counted(b, 1)) })
	b.Run("values", func(b *testing.B) {
		q := newQueue[*int](b)
		_ = q.Put(nil)
		takeAndPut(b, q)
	})
}

func takeAndPut[T any](b *testing.B, q *Queue[T]) {
	b.ReportAllocs()
	for b.Loop() {
		item, err := q.Take(background, time.Minute)
		if err == nil {
			err = q.Put(item)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

// A million wait, of so many tenants, and each gets an item. The figure is that of an item.
func BenchmarkMillion(b *testing.B) {
	const waiters = 1_000_000
	for _, tenants := range []int{1, 1_000, 100_000} {
		b.Run(fmt.Sprint(tenants), func(b *testing.B) {
			names := make([]string, tenants)
			for i := range names {
				names[i] = fmt.Sprint("tenant ", i)
			}
			for b.Loop() {
				b.StopTimer()
				q := newQueue[int](b)
				for i := range waiters {
					if _, err := q.Start(timer.Never, nil, Place{Tenant: names[i%tenants]}); err != nil {
						b.Fatal(err)
					}
				}
				b.StartTimer()
				for i := range waiters {
					if err := q.Put(i); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed())/float64(b.N)/waiters, "ns/item")
		})
	}
}
