package programs

import (
	"errors"
	"time"

	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/timer"
)

// register registers o in p, the first purgatory or the second one.
func (w *world) register(o *waiter, p *purgatory.DelayedOperationPurgatory[int]) {
	now := w.clock.Now()
	w.mu.Lock()
	w.now++
	began := w.now
	o.begun = append(o.begun, began)
	timeout := o.span()
	if len(o.begun) == 1 {
		o.minimum = timer.Deadline(now, timeout)
	}
	w.mu.Unlock()
	var completed bool
	var err error
	if keys, at := o.places(); at != nil {
		completed, err = p.TryCompleteElseWatchAt(o, timeout, at...)
	} else {
		completed, err = p.TryCompleteElseWatch(o, timeout, keys...)
	}
	later := w.clock.Now()
	abroad := p == w.abroad
	w.did(completed && !abroad)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now++
	o.returned++
	switch {
	case err == nil && o.accepted:
		o.fault("accepted twice")
	case err == nil:
		o.accepted, o.abroad = true, abroad
		if !o.endless || o.extends == 0 {
			o.maximum = max(o.maximum, timer.Deadline(later, timeout))
		}
		if len(o.begun) > 1 && (!o.endless || o.extends == 0) {
			o.minimum = timer.Deadline(now, timeout)
		}
	case errors.Is(err, purgatory.ErrUsed):
		if len(o.begun) < 2 {
			o.fault("used, and registered once")
		}
	case errors.Is(err, purgatory.ErrClosed):
		if !w.closing || abroad {
			o.fault("refused as closed, and nobody closes")
		}
	case errors.Is(err, purgatory.ErrFull) && !abroad:
		o.full = append(o.full, [2]int{began, w.now})
	default:
		o.fault("register: %v", err)
	}
}

// span returns the timeout of a registration.
func (o *op) span() time.Duration {
	if o.endless {
		return purgatory.NoTimeout
	}
	return time.Duration(o.timeout) * tick
}

// passes reports whether o has a timeout that passes.
func (o *waiter) passes() bool { return !o.endless || o.extends > 0 }

// extend extends o to a deadline that is not before the one of its registration.
func (w *world) extend(o *waiter, d time.Duration) {
	d += time.Duration(o.timeout) * tick
	promised := w.clock.Now() + d
	if !w.p.Extend(o, d) {
		return
	}
	o.home()
	later := w.clock.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	o.extends++
	if o.endless && o.extends == 1 {
		o.minimum, o.maximum = promised, 0
	} else if o.extends == 1 {
		o.minimum = max(o.minimum, promised)
	} else {
		o.minimum = min(o.minimum, promised)
	}
	o.maximum = max(o.maximum, later+d)
}
