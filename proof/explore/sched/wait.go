//go:build interleave

package sched

import (
	"context"
	"math"
	"math/rand/v2"
	"time"
)

// What follows belongs to the run in progress: Install makes it new.
var (
	clock time.Duration // how far Advance has moved the time
	dice  = rand.NewPCG(0, 0)
)

// Advance lets d pass. Only scenarios call it: otherwise the time stands still.
func Advance(d time.Duration) {
	Yield()
	clock += d
}

// Now returns the time of the run.
func Now() time.Time { return time.Unix(0, int64(clock)) }

// Since returns the time since t.
func Since(t time.Time) time.Duration { return Now().Sub(t) }

// WithTimeout is the function of package context, but the deadline is one of the run.
func WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	t := AfterFunc(d, func() { cancel(context.DeadlineExceeded) })
	return ctx, func() {
		t.Stop()
		cancel(nil)
	}
}

// Dice returns the next number of a sequence that is the same in every run.
func Dice(n int64) int64 { return rand.New(dice).Int64N(n) }

// Timer runs a function later.
type Timer struct{ stopped Bool }

// AfterFunc runs f when d has passed.
func AfterFunc(d time.Duration, f func()) *Timer {
	t := new(Timer)
	over := after(d)
	Go(func() {
		sleep("sleeps", func() bool { return over() || t.stopped.v })
		if !t.stopped.Swap(true) {
			f()
		}
	})
	return t
}

// Stop prevents the call, and reports whether it has.
func (t *Timer) Stop() bool { return !t.stopped.Swap(true) }

// Alarm runs a function at a time that can be set again.
type Alarm struct {
	f   func()
	set *Timer
}

// NewAlarm returns an Alarm for f, which is not set.
func NewAlarm(f func()) *Alarm { return &Alarm{f: f} }

// Set makes the alarm go off at the given time, and not when it was to before.
func (a *Alarm) Set(at time.Time) {
	if a.set != nil {
		a.set.Stop()
	}
	a.set = AfterFunc(at.Sub(Now()), a.f)
}

// after returns a function that reports whether d has passed since the call of after.
func after(d time.Duration) (over func() bool) {
	if d > math.MaxInt64-clock {
		return func() bool { return false }
	}
	until := clock + d
	return func() bool { return clock >= until }
}

// Group waits for goroutines that it has started.
type Group struct{ running int }

// Go starts f.
func (g *Group) Go(f func()) {
	g.running++
	Go(func() {
		defer func() { g.running-- }()
		f()
	})
}

// Wait waits until all have ended.
func (g *Group) Wait() {
	Yield()
	sleep("waits for a group", func() bool { return g.running == 0 })
}

// Pool keeps every object, and returns the last one first.
type Pool struct{ all []any }

// Get takes an object out of p; nil if there is none.
func (p *Pool) Get() (x any) {
	if n := len(p.all); n > 0 {
		x, p.all = p.all[n-1], p.all[:n-1]
	}
	return x
}

// Put puts x into p.
func (p *Pool) Put(x any) { p.all = append(p.all, x) }

// Receive receives from c.
func Receive(c <-chan struct{}) { Either(c, nil) }

// Either receives from a or b, and reports whether it was a. If both are ready, it is a; in a
// normal build, select chooses at random.
func Either(a, b <-chan struct{}) bool {
	Yield()
	sleep("waits", func() bool { return ready(a) || ready(b) })
	if ready(a) {
		<-a
		return true
	}
	<-b
	return false
}

// ready reports whether a receive from c would not block. c is either a channel that is only
// closed, or one with a buffer.
func ready(c <-chan struct{}) bool { return len(c) > 0 || closed(c) }

// Token is a channel that has one token or none: for a goroutine that is to be woken once,
// however often others say so, or as a lock that can be waited for with [Sleep].
type Token chan struct{}

// NewToken returns a Token that has none.
func NewToken() Token { return make(Token, 1) }

// Woken says how a [Sleep] has ended.
type Woken uint8

// The ends of a Sleep.
const (
	Elapsed Woken = iota
	Taken
	Stopped
)

// Put puts the token in, unless it is there.
func (t Token) Put() {
	Yield()
	select {
	case t <- struct{}{}:
		behind()
	default:
	}
}

// Sleep waits until it can take token, d has passed, or stop or end is closed. If several are
// the case, the first of these counts.
func Sleep(d time.Duration, token Token, stop, end <-chan struct{}) Woken {
	over := after(d) // from the moment at which the caller has computed d
	Yield()
	sleep("sleeps", func() bool { return len(token) > 0 || over() || closed(stop) || closed(end) })
	switch {
	case len(token) > 0:
		<-token
		return Taken
	case over():
		return Elapsed
	default:
		return Stopped
	}
}

// Sleeper has a Sleep.
type Sleeper struct{}

// Sleep is the function Sleep.
func (*Sleeper) Sleep(d time.Duration, token Token, stop, end <-chan struct{}) Woken {
	return Sleep(d, token, stop, end)
}

// Pause waits until no other goroutine can run or done is closed. Then d passes.
func Pause(d time.Duration, done <-chan struct{}) {
	Yield()
	if installed != nil {
		installed.Pause(func() bool { return closed(done) })
		clock += d
	}
}

func closed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}
