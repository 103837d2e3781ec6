package linearizability

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// stock is a queue of items, a pool, or a semaphore, as somebody would write it. It can have a mistake.
type stock struct {
	p       *purgatory.Purgatory[int]
	mistake mistake

	mu    sync.Mutex
	items []byte // guarded by mu
	units int    // guarded by mu
}

type mistake string

const (
	none       mistake = "none"
	noCheck    mistake = "no check follows what is added"
	checkFirst mistake = "the check comes before what it is for"
	dropped    mistake = "what was taken is dropped if the client has left"
	overtaken  mistake = "newcomers overtake those who wait"
	twoSteps   mistake = "the condition looks and takes in two steps"
	tooFew     mistake = "units are taken although there are too few"
)

// everybody is the key for which everybody waits.
const everybody = 0

// take is the condition: it takes an item, or units, if there is enough.
func (s *stock) take(want int) (item byte, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if want > 0 {
		if s.units < want && (s.mistake != tooFew || s.units == 0) {
			return 0, false
		}
		s.units -= want
		return 0, true
	}
	if len(s.items) == 0 {
		return 0, false
	}
	item = s.items[0]
	if s.mistake == twoSteps {
		s.mu.Unlock()
		runtime.Gosched()
		s.mu.Lock()
	}
	s.items = s.items[min(1, len(s.items)):]
	return item, true
}

// put adds an item, and has those who wait tried.
func (s *stock) put(item byte, signal bool) {
	s.change(signal, func() { s.items = append(s.items, item) })
}

// give gives units back, and has those who wait tried.
func (s *stock) give(units int, signal bool) {
	s.change(signal, func() { s.units += units })
}

func (s *stock) change(signal bool, add func()) {
	check := func() { s.p.CheckAndCompleteInOrder(everybody) }
	if signal {
		check = func() { s.p.SignalInOrder(everybody) }
	}
	if s.mistake == checkFirst {
		check()
	}
	s.mu.Lock()
	add()
	s.mu.Unlock()
	if s.mistake != checkFirst && s.mistake != noCheck {
		check()
	}
}

// await waits on this goroutine. late reports that the condition was called
// again when ctx had ended.
func (s *stock) await(ctx context.Context, timeout time.Duration, want int, keys []int) (item byte, late bool, err error) {
	again := false
	item, err = purgatory.AwaitValue(ctx, s.p, timeout, func() (byte, bool) {
		late, again = again && ctx.Err() != nil, true
		return s.take(want)
	}, keys...)
	if s.mistake == dropped && err == nil {
		err = ctx.Err()
	}
	return item, late, err
}

// claim is one who waits without a goroutine.
type claim struct {
	operation.DelayedOperation
	stock *stock
	want  int
	item  byte
	took  bool
	ended func(*claim)
}

func (c *claim) TryComplete() bool {
	c.item, c.took = c.stock.take(c.want)
	return c.took
}

func (c *claim) OnExpiration() {}

func (c *claim) OnComplete() {
	c.took = c.Outcome() == operation.Satisfied
	c.ended(c)
}
