//go:build !interleave

package sched

import (
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"time"
)

// Group waits for goroutines that it has started.
type Group = sync.WaitGroup

// Pool keeps objects that are used again.
type Pool = sync.Pool

// Now returns the time.
func Now() time.Time { return time.Now() }

// InBubble reports whether its caller runs in a bubble of testing/synctest: times there have no monotonic
// reading.
func InBubble() bool {
	now := time.Now()
	return now == now.Round(0) //nolint:staticcheck // Equal would compare what Round keeps
}

// Since returns the time since t.
func Since(t time.Time) time.Duration { return time.Since(t) }

// AfterFunc runs f on a goroutine of its own when d has passed.
func AfterFunc(d time.Duration, f func()) { time.AfterFunc(d, f) }

// Alarm runs a function at a time that can be set again.
type Alarm struct{ timer *time.Timer }

// NewAlarm returns an Alarm for f, which is not set. It runs f on a goroutine of its own.
func NewAlarm(f func()) *Alarm {
	a := &Alarm{time.AfterFunc(math.MaxInt64, f)}
	a.timer.Stop()
	return a
}

// Set makes the alarm go off at the given time, and at no other.
func (a *Alarm) Set(at time.Time) { a.timer.Reset(time.Until(at)) }

// WithTimeout is context.WithTimeout.
var WithTimeout = context.WithTimeout

// Dice returns a random number from 0 to n-1.
func Dice(n int64) int64 { return rand.Int64N(n) }

// Receive receives from c.
func Receive(c <-chan struct{}) { <-c }

// Either receives from a or b, and reports whether it was a. Without b, a receive is cheaper than a select.
func Either(a, b <-chan struct{}) bool {
	if b == nil {
		<-a
		return true
	}
	select {
	case <-a:
		return true
	case <-b:
		return false
	}
}

// Token is a channel with one token or none: it wakes a goroutine once, or is a lock that [Sleep] can wait for.
type Token chan struct{}

// NewToken returns a Token that has none.
func NewToken() Token { return make(Token, 1) }

// Put puts the token in, unless it is there.
func (t Token) Put() {
	select {
	case t <- struct{}{}:
	default:
	}
}

// Woken says how a [Sleep] has ended.
type Woken uint8

// The ends of a Sleep.
const (
	Elapsed Woken = iota
	Taken
	Stopped
)

// Sleeper is a goroutine's timer, for one sleep after the other. The zero value is ready to use.
type Sleeper struct{ timer *time.Timer }

// Sleep is the function [Sleep] on the sleeper's timer.
func (s *Sleeper) Sleep(d time.Duration, token Token, stop, end <-chan struct{}) Woken {
	select {
	case <-token:
		return Taken
	default:
	}
	if d <= 0 { // without a timer: in a bubble, two that are over when they are made crash the race detector
		if Closed(stop) || Closed(end) {
			return Stopped
		}
		return Elapsed
	}
	if s.timer == nil {
		s.timer = time.NewTimer(d)
	} else {
		s.timer.Reset(d)
	}
	defer s.timer.Stop()
	select {
	case <-token:
		return Taken
	case <-s.timer.C:
		return Elapsed
	case <-stop:
	case <-end:
	}
	return Stopped
}

// Sleep waits until d has passed (Elapsed), or it can take token (Taken, which comes first), or stop or end is
// closed (Stopped).
func Sleep(d time.Duration, token Token, stop, end <-chan struct{}) Woken {
	return new(Sleeper).Sleep(d, token, stop, end)
}

// Pause is Sleep in a loop that polls. With the tag interleave, d passes when no other goroutine can run.
func Pause(d time.Duration, done <-chan struct{}) { Sleep(d, nil, done, nil) }
