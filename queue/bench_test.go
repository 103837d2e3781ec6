package queue

import (
	"testing"
	"time"
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
