package programs

import (
	"errors"
	"time"

	"github.com/delayedop/purgatory/purgatory"
)

// register registers o in p, the first purgatory or the second one.
func (w *world) register(o *waiter, p *purgatory.DelayedOperationPurgatory[int]) {
	now := w.clock.Now()
	w.mu.Lock()
	w.now++
	began := w.now
	o.begun = append(o.begun, began)
	timeout := time.Duration(o.timeout) * tick
	if len(o.begun) == 1 {
		o.minimum = now + timeout
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
		o.accepted, o.abroad, o.watched = true, abroad, w.now
		o.maximum = max(o.maximum, later+timeout)
		if len(o.begun) > 1 {
			o.minimum = now + timeout
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
	if o.extends == 1 {
		o.minimum = max(o.minimum, promised)
	} else {
		o.minimum = min(o.minimum, promised)
	}
	o.maximum = max(o.maximum, later+d)
}
