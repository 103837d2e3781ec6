package docs

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/queue"
	"github.com/delayedop/purgatory/signals"
	"github.com/delayedop/purgatory/watermark"
)

// What each form of a wait allocates that begins, blocks and is woken: the table of docs/guide.md.
func BenchmarkForms(b *testing.B) {
	ctx := context.Background()
	p := purgatory.Must(purgatory.New[string]("forms"))
	defer p.Close()
	var ready atomic.Bool
	met := ready.Load
	pending := func() bool { return p.NumDelayed() > 0 }
	check := func() { ready.Store(true); p.CheckAndComplete("a") }
	for name, await := range map[string]func(){
		"Await":        func() { _ = p.Await(ctx, time.Minute, met, "a") },
		"Await/keys=3": func() { _ = p.Await(ctx, time.Minute, met, "a", "b", "c") },
		"AwaitAt":      func() { _ = p.AwaitAt(ctx, time.Minute, met, purgatory.KeyPosition[string]{Key: "a", Position: 1}) },
		"AwaitValue":   func() { _, _ = purgatory.AwaitValue(ctx, p, time.Minute, func() (int, bool) { return 1, met() }, "a") },
		"StartWait":    func() { w, _ := p.StartWait(time.Minute, met, "a"); <-w.Done() },
		"signals/Read=2": func() {
			_, _ = signals.AwaitRead(ctx, p, time.Minute, func(context.Context) (int, bool, error) { return 1, met(), nil }, "a")
		},
	} {
		b.Run(name, func(b *testing.B) { wakeEach(b, await, pending, check, func() { ready.Store(false) }) })
	}
	w, end := watermark.New(p, "w", 0), int64(0)
	for name, await := range map[string]func(){
		"watermark/Await":     func() { _ = w.Await(ctx, time.Minute, end+1) },
		"watermark/StartWait": func() { r, _ := w.StartWait(end + 1); <-r.Done() },
	} {
		b.Run(name, func(b *testing.B) {
			wakeEach(b, await, pending, func() { w.Advance(end + 1) }, func() { end = w.Position() })
		})
	}
	q, err := queue.New[int]()
	if err != nil {
		b.Fatal(err)
	}
	for name, take := range map[string]func(){
		"queue/Take":  func() { _, _ = q.Take(ctx, time.Minute) },
		"queue/Start": func() { r, _ := q.Start(time.Minute, nil); _, _ = r.Result() },
	} {
		b.Run(name, func(b *testing.B) {
			wakeEach(b, take, func() bool { handed, _ := q.Hand(1); return handed }, func() {}, func() {})
		})
	}
}

// wakeEach makes b.N waits on a goroutine, one after the other. It wakes each when it waits.
func wakeEach(b *testing.B, await func(), waits func() bool, wake, before func()) {
	b.ReportAllocs()
	begin, over := make(chan struct{}), make(chan struct{})
	go func() {
		for range begin {
			await()
			over <- struct{}{}
		}
	}()
	for b.Loop() {
		before()
		begin <- struct{}{}
		for !waits() {
			runtime.Gosched()
		}
		wake()
		<-over
	}
	close(begin)
}
