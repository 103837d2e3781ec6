package purgatory

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/delayedop/purgatory/operation"
)

type zzOp struct {
	operation.DelayedOperation
	try      func() bool
	complete func()
	done     atomic.Int32
}

func (o *zzOp) TryComplete() bool {
	if o.try == nil {
		return false
	}
	return o.try()
}
func (o *zzOp) OnComplete() {
	o.done.Add(1)
	if o.complete != nil {
		o.complete()
	}
}
func (o *zzOp) OnExpiration() {}

func zzGoexitPanic() {
	defer func() { panic("in a deferred function, during Goexit") }()
	runtime.Goexit()
}

func zzApart(f func()) {
	d := make(chan struct{})
	go func() { defer close(d); f() }()
	<-d
}

func zzNew(t *testing.T, o ...Option) *DelayedOperationPurgatory[string] {
	p, err := New[string]("zz", append(o, WithPanicHandler(func(any, []byte) {}))...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func zzShut(t *testing.T, p *DelayedOperationPurgatory[string]) {
	ctx, c := context.WithTimeout(context.Background(), 3*time.Second)
	defer c()
	if err := p.Shutdown(ctx); err != nil {
		t.Error("shutdown:", err)
	}
}

func TestZZGoexitPanicCallback(t *testing.T) {
	p := zzNew(t)
	var ready atomic.Bool
	var ops []*zzOp
	for i := range 3 {
		o := &zzOp{try: ready.Load}
		if i == 0 {
			o.complete = zzGoexitPanic
		}
		ops = append(ops, o)
		if _, err := p.TryCompleteElseWatch(o, time.Hour, "k"); err != nil {
			t.Fatal(err)
		}
	}
	ready.Store(true)
	zzApart(func() { p.CheckAndComplete("k") })
	time.Sleep(50 * time.Millisecond)
	for i, o := range ops {
		if o.done.Load() != 1 {
			t.Error("op", i, "OnComplete ran", o.done.Load(), "outcome", o.Outcome())
		}
	}
	zzShut(t, p)
}

func TestZZGoexitPanicTry(t *testing.T) {
	p := zzNew(t)
	var ready, bad atomic.Bool
	var ops []*zzOp
	for i := range 3 {
		o := &zzOp{try: ready.Load}
		if i == 1 {
			o.try = func() bool {
				if ready.Load() && !bad.Swap(true) {
					zzGoexitPanic()
				}
				return ready.Load()
			}
		}
		ops = append(ops, o)
		if _, err := p.TryCompleteElseWatch(o, 200*time.Millisecond, "k"); err != nil {
			t.Fatal(err)
		}
	}
	ready.Store(true)
	zzApart(func() { p.CheckAndComplete("k") })
	time.Sleep(600 * time.Millisecond)
	for i, o := range ops {
		if o.done.Load() != 1 {
			t.Error("op", i, "OnComplete ran", o.done.Load(), "outcome", o.Outcome())
		}
	}
	zzShut(t, p)
}

func TestZZGoexitPanicRegister(t *testing.T) {
	for n := range 2 {
		p := zzNew(t)
		var tries atomic.Int32
		o := &zzOp{}
		o.try = func() bool {
			if tries.Add(1) == int32(n+1) {
				zzGoexitPanic()
			}
			return false
		}
		zzApart(func() { p.TryCompleteElseWatch(o, 200*time.Millisecond, "k") })
		time.Sleep(600 * time.Millisecond)
		t.Log("n", n, "tries", tries.Load(), "done", o.done.Load(), "outcome", o.Outcome(), p.Stats().Pending)
		if n == 1 && o.done.Load() != 1 {
			t.Error("lost")
		}
		o2 := o
		_, err := p.TryCompleteElseWatch(o2, time.Second, "k")
		t.Log("again:", err)
		zzShut(t, p)
	}
}

func TestZZNilUnhashable(t *testing.T) {
	p, _ := New[any]("zz")
	defer p.Close()
	defer func() { t.Log("recovered", recover()) }()
	_, err := p.TryCompleteElseWatch(nil, time.Second, any([]int{1}))
	t.Log("err", err)
}

// A TryComplete that checks its own key, with others before it in the list.
func TestZZSelfCheck(t *testing.T) {
	p := zzNew(t)
	var ready atomic.Bool
	var ops []*zzOp
	for i := range 300 {
		o := &zzOp{try: ready.Load}
		if i == 200 {
			var once atomic.Bool
			o.try = func() bool {
				if ready.Load() && !once.Swap(true) {
					p.CheckAndComplete("k")
					return false
				}
				return ready.Load()
			}
		}
		ops = append(ops, o)
		if _, err := p.TryCompleteElseWatch(o, time.Hour, "k"); err != nil {
			t.Fatal(err)
		}
	}
	ready.Store(true)
	t.Log(p.CheckAndComplete("k"))
	time.Sleep(100 * time.Millisecond)
	for i, o := range ops {
		if o.done.Load() != 1 {
			t.Error("op", i, o.done.Load(), o.Outcome())
		}
	}
	t.Log(p.NumKeys(), p.Stats().Pending)
	zzShut(t, p)
}
