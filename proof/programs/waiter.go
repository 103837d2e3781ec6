package programs

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// waiter is an operation of a program.
type waiter struct {
	operation.DelayedOperation
	*op
	w       *world
	id      int
	client  *client // of an Await
	travels bool    // it may be registered in the second purgatory

	// guarded by w.mu
	begun    []int // when its registrations began
	returned int   // how many of them have returned
	accepted bool
	abroad   bool          // accepted, by the second purgatory
	atHome   bool          // a verb of the first purgatory says that it has changed it
	full     [][2]int      // refusals with ErrFull: when the call began, and when it returned
	minimum  time.Duration // it does not expire before
	maximum  time.Duration // it has expired when the clock stands there
	extends  int
	mustEnd  bool // it was forced or cancelled after a registration had begun
	left     bool // the client has left
	gone     bool // another operation's Goexit has ended the goroutine that waits
	loose    bool // it may have ended without being counted
	cause    bool // a cancel has given it a cause

	tries, completed, expired int
	trying, calling           bool
	yes                       bool // a try has returned true
	failed                    int  // when a try last panicked or ended its goroutine
	doneAt                    int  // when OnComplete began
	doneTime                  time.Duration
	outcome                   operation.Outcome
}

// places returns the purgatory's keys that o waits for, with their positions if it has one.
func (o *waiter) places() (keys []int, at []purgatory.KeyPosition[int]) {
	for _, k := range o.keys {
		if id := o.w.ids[k]; o.position > 0 {
			at = append(at, purgatory.KeyPosition[int]{Key: id, Position: int64(o.position)})
		} else {
			keys = append(keys, id)
		}
	}
	return keys, at
}

func (o *waiter) fault(format string, args ...any) {
	o.w.faultLocked("o%d: %s", o.id, fmt.Sprintf(format, args...))
}

// meets reports whether the condition is met, and takes the item that it needs.
func (o *waiter) meetsLocked() bool {
	met := func(k int) bool { return o.w.raised[k] > 0 }
	switch o.needs {
	case anyKey:
		return slices.ContainsFunc(o.keys, met)
	case allKeys:
		return !slices.ContainsFunc(o.keys, func(k int) bool { return !met(k) })
	case item:
		for _, k := range o.keys {
			if o.w.items[k] > 0 {
				o.w.items[k]--
				return true
			}
		}
	}
	return false
}

// maxTries is more tries than the calls of any program can cause.
const maxTries = 2000

func (o *waiter) TryComplete() (yes bool) {
	w := o.w
	gone := o.gives() && o.client.Err() != nil // here is no point at which another goroutine goes on
	sched.Yield()
	w.mu.Lock()
	w.now++
	if gone && exact && o.tries > 0 && !w.observed {
		o.fault("tried after its context has ended")
	}
	o.tries++
	if o.trying || o.calling || o.completed > 0 {
		o.fault("TryComplete overlaps itself or a callback, or follows OnComplete")
	}
	if o.yes {
		o.fault("tried again after a yes")
	}
	if o.tries > maxTries {
		o.fault("tried %d times", o.tries)
	}
	if w.down && o.accepted && !o.travels {
		o.fault("tried after Shutdown")
	}
	o.trying = true
	tries := o.tries
	returned := false
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		w.now++
		o.trying = false
		if !returned {
			o.failed = w.now
		}
		w.mu.Unlock()
	}()
	for _, r := range o.inTry {
		if r.at == tries {
			w.react(r.step)
		}
	}
	w.mu.Lock()
	w.now++
	yes = o.meetsLocked()
	o.yes = yes
	w.mu.Unlock()
	sched.Yield() // a change at this point must cause another try
	returned = true
	return yes
}

func (o *waiter) OnComplete() {
	w := o.w
	outcome, cause, at := o.Outcome(), o.Cause(), w.clock.Now()
	w.mu.Lock()
	w.now++
	if o.trying || o.calling {
		o.fault("OnComplete overlaps TryComplete or a callback")
	}
	if w.down && !o.travels {
		o.fault("OnComplete after Shutdown")
	}
	o.calling = true
	o.completed++
	o.outcome = outcome
	o.doneAt, o.doneTime = w.now, at
	if o.outcome == operation.Pending {
		o.fault("OnComplete of an operation without an outcome")
	}
	if o.yes != (o.outcome == operation.Satisfied) {
		o.fault("a try has returned %v, and the outcome is %v", o.yes, o.outcome)
	}
	if o.outcome == operation.Cancelled && (!o.cause || !errors.Is(cause, errCause)) {
		o.fault("cancelled with cause %v", cause)
	}
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		o.calling = false
		w.mu.Unlock()
	}()
	for _, r := range o.inDone {
		w.react(r.step)
	}
}

func (o *waiter) OnExpiration() {
	w := o.w
	sched.Yield()
	w.mu.Lock()
	w.now++
	if o.trying || o.calling || o.completed != 1 || o.outcome != operation.Expired {
		o.fault("OnExpiration overlaps, comes before OnComplete, or the outcome is %v", o.outcome)
	}
	if w.down && !o.travels {
		o.fault("OnExpiration after Shutdown")
	}
	o.expired++
	w.mu.Unlock()
	for _, r := range o.inExpire {
		w.react(r.step)
	}
}
