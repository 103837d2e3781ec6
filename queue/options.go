package queue

import (
	"errors"
	"math"
	"reflect"
	"time"

	"github.com/delayedop/purgatory/timer"
)

type config struct {
	timer                   timer.Timer
	maxWaiting, maxItems    int
	maxAge, aging           time.Duration
	newestTaker, newestItem bool
	errs                    error
}

// Option configures a queue.
type Option func(*config)

func positive[N int | time.Duration](name string, n N, set func(c *config)) Option {
	return func(c *config) {
		if set(c); n <= 0 {
			c.errs = errors.Join(c.errs, fail(ErrInvalid, "%s(%v), must be positive", name, n))
		}
	}
}

// WithTimer sets the timer for timeouts and callbacks: a [timer.SystemTimer] that somebody drives, or a
// [timer.ManualTimer]. Close the queue before you stop the timer: callbacks that are due then do not run. Default:
// [timer.Shared].
func WithTimer(t timer.Timer) Option {
	return func(c *config) {
		if c.timer = t; t == nil || reflect.ValueOf(t).IsNil() {
			c.errs = errors.Join(c.errs, fail(ErrInvalid, "WithTimer(nil)"))
		}
	}
}

// WithMaxWaiting limits how many may wait, of all kinds together: beyond it, [ErrFull]. A named tenant may have no more
// waiting than places are left, so that a tenant that floods the line leaves room for the others. Default: no limit.
func WithMaxWaiting(n int) Option {
	return positive("WithMaxWaiting", n, func(c *config) { c.maxWaiting = n })
}

// WithMaxItems limits how many units are kept, of all kinds together: beyond it, [Queue.Put] returns [ErrFull], even if
// somebody waits for what is put. A request for more units can never be met: [ErrInvalid]. Default: as many as an int counts.
func WithMaxItems(n int) Option {
	return positive("WithMaxItems", n, func(c *config) { c.maxItems = n })
}

// WithMaxAge limits how long anybody waits, whatever the timeout: beyond it, [ErrStale]. A line that is longer than the
// patience of its clients serves those who have left. Default: no limit.
func WithMaxAge(d time.Duration) Option {
	return positive("WithMaxAge", d, func(c *config) { c.maxAge = d })
}

// WithAging allows classes (see [Place]): within a tenant, one of class c is served as if it had come c × handicap later.
// So nobody is overtaken by one who came more than that later. Without this option or WithNewestFirst there is one class.
func WithAging(handicap time.Duration) Option {
	return positive("WithAging", handicap, func(c *config) { c.aging = min(handicap, longestAging) })
}

// WithNewestFirst serves the newest taker first, as a server does in overload, or hands out the newest item first, as a
// pool of connections does. Then lower classes come strictly first; in the line that is not the newest first, [WithAging] may say
// otherwise.
func WithNewestFirst(takers, items bool) Option {
	return func(c *config) { c.newestTaker, c.newestItem = takers, items }
}

// Place says where a request, or an item, stands. The zero value is for one unit, of the kind "", of the tenant "", in the
// first class.
type Place struct {
	// Kinds are the kinds of items that a taker waits for: it gets one item of one of them, the first in this order that
	// has one. An item is of one kind. None: the kind whose name is "".
	Kinds []string

	// Tenant is for whom. Those who wait for one kind get equal shares of it, counted in cost: start-time fair queueing.
	// So do the items that are kept. "" is a tenant like the others, but has no bound of its own.
	Tenant string

	// Class is the priority, from 0, the first, to 7. See [WithAging].
	Class int

	// N is how many units, 0 counts as 1. It is 1 unless the type of the items has no size, as struct{}: then they are
	// only counted, and the queue is a weighted semaphore. More than 1 is for one kind.
	N int

	// Cost is what the tenant is charged when it is served: a number of units, divided by the weight of the tenant. 0
	// counts as N.
	Cost float64
}

// nowhere is the place of those who name none.
var nowhere = Place{Kinds: []string{""}, N: 1, Cost: 1}

// place returns the first place, with its defaults, and an error if it is out of range, names more kinds, or is not alone.
func (q *Queue[T]) place(at []Place, kinds int) (p Place, err error) {
	if p = at[0]; len(p.Kinds) == 0 {
		p.Kinds = nowhere.Kinds
	}
	if p.N == 0 {
		p.N = 1
	}
	if p.Cost == 0 {
		p.Cost = float64(p.N)
	}
	switch classed := q.aging > 0 || q.newestTaker || q.newestItem; {
	case len(at) > 1:
		err = fail(ErrInvalid, "%d places, must be one", len(at))
	case len(p.Kinds) > kinds:
		err = fail(ErrInvalid, "%d kinds, an item is of one", len(p.Kinds))
	case p.N < 1:
		err = fail(ErrInvalid, "%d units, must be positive", p.N)
	case p.N > 1 && !q.units:
		err = fail(ErrInvalid, "%d units, and only items without a size are counted", p.N)
	case p.N > 1 && len(p.Kinds) > 1:
		err = fail(ErrInvalid, "%d units of %d kinds, must be of one", p.N, len(p.Kinds))
	case p.N > q.maxItems:
		err = fail(ErrInvalid, "%d units, at most %d are kept", p.N, q.maxItems)
	case !(p.Cost > 0) || math.IsInf(p.Cost, 1):
		err = fail(ErrInvalid, "cost %v, must be positive and finite", p.Cost)
	case p.Class < 0 || p.Class >= classes:
		err = fail(ErrInvalid, "class %d, must be from 0 to %d", p.Class, classes-1)
	case p.Class > 0 && !classed:
		err = fail(ErrInvalid, "class %d without WithAging or WithNewestFirst", p.Class)
	}
	return p, err
}
