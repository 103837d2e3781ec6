package purgatory_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// proposals has the proposals of this server that wait for their application. The applied entries that came last are the
// state that their conditions read. One goroutine applies; this needs no lock and no map.
type proposals struct {
	p       *purgatory.Purgatory[uint64]
	applied [1 << 10]struct{ key, result atomic.Uint64 } // by key; a check that another goroutine makes comes long before it is overwritten
}

// proposal is an operation that carries its result. It is the only allocation of its life: a WaitGroup needs none. It cannot
// be used again: see docs/internals/decisions.md#an-operation-is-used-once.
type proposal struct {
	operation.DelayedOperation
	from        *proposals
	key, result uint64
	ended       sync.WaitGroup // 1 until OnComplete
}

func (o *proposal) TryComplete() bool {
	a := &o.from.applied[o.key%uint64(len(o.from.applied))]
	if a.key.Load() != o.key {
		return false
	}
	o.result = a.result.Load()
	return a.key.Load() == o.key // if not, it is the result of a later entry
}

func (o *proposal) OnComplete()   { o.ended.Done() }
func (o *proposal) OnExpiration() {}

// propose registers a proposal before it goes to the log. No other has its key, which is not 0.
func (s *proposals) propose(key uint64, timeout time.Duration) (*proposal, error) {
	o := &proposal{from: s, key: key}
	o.ended.Add(1)
	_, err := s.p.TryCompleteElseWatch(o, timeout, key)
	return o, err
}

// apply hands the result to the proposal, if this server has made it. For nobody it allocates nothing.
func (s *proposals) apply(key, result uint64) {
	a := &s.applied[key%uint64(len(s.applied))]
	a.key.Store(0) // so that nobody takes the next result for that of the entry before
	a.result.Store(result)
	a.key.Store(key)
	s.p.CheckAndComplete(key)
}

// wait returns the result.
func (o *proposal) wait() (result uint64, err error) {
	o.ended.Wait()
	if o.Outcome() != operation.Satisfied {
		return 0, errors.New(o.Outcome().String())
	}
	return o.result, nil
}

// Who applies the entries of a log wakes the proposal with the key of an entry, and hands it the result, without a function
// or a lookup of its own.
func Example_result() {
	p, err := purgatory.New[uint64]("proposals")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer p.Close()
	s := &proposals{p: p}
	mine, err := s.propose(7, time.Minute)
	if err != nil {
		fmt.Println(err)
		return
	}
	late, err := s.propose(9, 10*time.Millisecond)
	if err != nil {
		fmt.Println(err)
		return
	}
	go func() {
		s.apply(6, 60) // another server's
		s.apply(7, 70)
		s.apply(8, 80)
	}()
	fmt.Println(mine.wait())
	fmt.Println(late.wait())
	// Output:
	// 70 <nil>
	// 0 expired
}
