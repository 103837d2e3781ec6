package main

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// proposals answers proposals to a log with the results of their application, as a raft library does.
type proposals interface {
	// Propose registers a proposal under a key that no other has.
	Propose(key uint64) (pending any)
	// Apply hands over the result to the proposal with the key, if it is one of this server's. One goroutine calls it.
	Apply(key, result uint64)
	// Result blocks until there is a result.
	Result(pending any) uint64
	Close()
}

var proposalMakers = []maker[proposals]{
	{hand, "a map of pooled requests", func() proposals { return newHandProposals() }},
	{ours, "an operation that carries its result", func() proposals { return newPurgatoryProposals() }},
	{ours, "the same, found in a map and forced", func() proposals { return newForcedProposals() }},
}

// handProposals is dragonboat's form restated: pooled requests with a channel, in a map, whose deadlines a tick compares
// with the clock, all of them.
type handProposals struct {
	mu      sync.Mutex
	pending map[uint64]*handProposal
	now     uint64 // ticks
	pool    sync.Pool
	stop    chan struct{}
	ended   sync.WaitGroup
}

type handProposal struct {
	deadline uint64
	done     chan proposalResult
}

type proposalResult struct {
	value   uint64
	expired bool
}

const proposalTick = 100 * time.Millisecond

func newHandProposals() *handProposals {
	h := &handProposals{pending: make(map[uint64]*handProposal), stop: make(chan struct{})}
	h.pool.New = func() any { return &handProposal{done: make(chan proposalResult, 1)} }
	h.ended.Go(func() {
		ticker := time.NewTicker(proposalTick)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				h.tick()
			case <-h.stop:
				return
			}
		}
	})
	return h
}

func (h *handProposals) tick() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now++
	for key, p := range h.pending {
		if p.deadline < h.now {
			delete(h.pending, key)
			p.done <- proposalResult{expired: true}
		}
	}
}

func (h *handProposals) Propose(key uint64) any {
	p := h.pool.Get().(*handProposal)
	h.mu.Lock()
	defer h.mu.Unlock()
	p.deadline = h.now + uint64(timeout/proposalTick)
	h.pending[key] = p
	return p
}

func (h *handProposals) Apply(key, result uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p, ok := h.pending[key]; ok {
		delete(h.pending, key)
		p.done <- proposalResult{value: result}
	}
}

func (h *handProposals) Result(pending any) uint64 {
	p := pending.(*handProposal)
	r := <-p.done
	h.pool.Put(p)
	return r.value
}

func (h *handProposals) Close() {
	close(h.stop)
	h.ended.Wait()
}

// purgatoryProposals has an operation for each proposal. The results that were applied last are the state that conditions
// read: see the example Result of package purgatory.
type purgatoryProposals struct {
	p       *purgatory.DelayedOperationPurgatory[uint64]
	applied [1 << 10]struct{ key, result atomic.Uint64 }
}

func newPurgatoryProposals() *purgatoryProposals {
	return &purgatoryProposals{p: newPurgatory[uint64]()}
}

type proposal struct {
	operation.DelayedOperation
	in          *purgatoryProposals
	key, result uint64
	ended       sync.WaitGroup
}

func (p *proposal) TryComplete() bool {
	a := &p.in.applied[p.key%uint64(len(p.in.applied))]
	if a.key.Load() != p.key {
		return false
	}
	p.result = a.result.Load()
	return a.key.Load() == p.key
}

func (p *proposal) OnComplete()   { p.ended.Done() }
func (p *proposal) OnExpiration() {}

func (s *purgatoryProposals) Propose(key uint64) any {
	p := &proposal{in: s, key: key}
	p.ended.Add(1)
	_, err := s.p.TryCompleteElseWatch(p, timeout, key)
	must(err)
	return p
}

func (s *purgatoryProposals) Apply(key, result uint64) {
	a := &s.applied[key%uint64(len(s.applied))]
	a.key.Store(0)
	a.result.Store(result)
	a.key.Store(key)
	s.p.CheckAndComplete(key)
}

func (s *purgatoryProposals) Result(pending any) uint64 {
	p := pending.(*proposal)
	p.ended.Wait()
	return p.result
}

func (s *purgatoryProposals) Close() { shutdown(s.p) }

// forcedProposals finds operations as code by hand does, and ends them with ForceComplete, which needs no check.
type forcedProposals struct {
	p       *purgatory.DelayedOperationPurgatory[uint64]
	mu      sync.Mutex
	pending map[uint64]*forcedProposal
}

func newForcedProposals() *forcedProposals {
	return &forcedProposals{p: newPurgatory[uint64](), pending: make(map[uint64]*forcedProposal)}
}

type forcedProposal struct {
	operation.DelayedOperation
	in          *forcedProposals
	key, result uint64
	ended       sync.WaitGroup
}

func (*forcedProposal) TryComplete() bool { return false }
func (p *forcedProposal) OnExpiration()   {}

func (p *forcedProposal) OnComplete() {
	if p.Outcome() != operation.Forced {
		p.in.take(p.key)
	}
	p.ended.Done()
}

func (s *forcedProposals) take(key uint64) *forcedProposal {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pending[key]
	if p != nil {
		delete(s.pending, key)
	}
	return p
}

func (s *forcedProposals) Propose(key uint64) any {
	p := &forcedProposal{in: s, key: key}
	p.ended.Add(1)
	s.mu.Lock()
	s.pending[key] = p
	s.mu.Unlock()
	_, err := s.p.TryCompleteElseWatch(p, timeout, key)
	must(err)
	return p
}

func (s *forcedProposals) Apply(key, result uint64) {
	if p := s.take(key); p != nil {
		p.result = result
		s.p.ForceComplete(p)
	}
}

func (s *forcedProposals) Result(pending any) uint64 {
	p := pending.(*forcedProposal)
	p.ended.Wait()
	return p.result
}

func (s *forcedProposals) Close() { shutdown(s.p) }

// proposed proposes, applies and receives, on one goroutine or with another one that applies. Its time is the processor's.
func proposed(s proposals, others int, window time.Duration) map[string]float64 {
	key := uint64(0)
	log := make(chan uint64, 1)
	var applier sync.WaitGroup
	applier.Go(func() {
		for k := range log {
			s.Apply(k, 2*k)
		}
	})
	m := loop(window, 100, func() {
		key++
		pending := s.Propose(key)
		if others > 0 {
			log <- key
		} else {
			s.Apply(key, 2*key)
		}
		if got := s.Result(pending); got != 2*key {
			panic(fmt.Sprintf("a wrong result: %d for %d", got, key))
		}
	})
	close(log)
	applier.Wait()
	return ofProcessor(m)
}

// appliedForNobody applies what another server has proposed.
func appliedForNobody(s proposals, _ int, window time.Duration) map[string]float64 {
	key := uint64(0)
	return ofProcessor(loop(window, 100, func() {
		key++
		s.Apply(key, key)
	}))
}
