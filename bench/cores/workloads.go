package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/delayedop/purgatory/bench/purgatories"
	"github.com/delayedop/purgatory/bench/workload"
	"github.com/delayedop/purgatory/purgatory"
)

// load is a row of the matrix.
type load struct {
	name, what string
	make       func(procs int) world
}

// world is what a load runs in, made for so many processors.
type world struct {
	goroutines int
	streamOf   func(worker int) int
	run        func(worker int, s *stream) // what each goroutine does, as long as there is more
	end        func()
	least      time.Duration // how long a window has to be
}

const lifetime = 30 * time.Second

// herdSize is how many goroutines wait in a herd, as in package model.
const herdSize = 2000

func loads() []load {
	const ours, byHand = purgatories.Ours, purgatories.CB
	return []load{
		{"P1", "an operation's life, 1 key, batches of 64 that end by a check", lives(ours, 1)},
		{"P2", "an operation's life, 3 keys, two of them of 1,000 that all share", lives(ours, 3)},
		{"P4", "an operation's life, 3 of 100 keys that all share, ended one by one", forced(ours)},
		{"hot key", "an operation's life under one key, ended by itself", hot(ours)},
		{"herd", "2,000 waits under one key, ended by a check, and begun again", ourHerd},
		{"apart", "P1, each goroutine with a purgatory of its own: what the machine itself allows", apart},
		{"AfterFunc", "time.AfterFunc and Stop", afterFunc},
		{"P1 by hand", "P1 with a map, a lock and AfterFunc", lives(byHand, 1)},
		{"P2 by hand", "P2 with these", lives(byHand, 3)},
		{"hot key by hand", "the hot key with these", hot(byHand)},
		{"semaphore", "x/sync/semaphore for half as many as there are processors, Acquire and Release", semaphores},
		{"herd by sync.Cond", "2,000 goroutines in Wait, woken by Broadcast, and again", condHerd},
	}
}

func lives(peer string, keys int) func(int) world {
	return func(procs int) world {
		p := purgatories.New(peer)
		loop := workload.LifeLoop(p, procs, keys)
		return world{procs, alone, func(worker int, s *stream) {
			const batch = 64
			for s.more(batch) {
				loop(worker, batch)
			}
		}, p.Close, 0}
	}
}

func apart(procs int) world {
	var worlds []world
	for range procs {
		worlds = append(worlds, lives(purgatories.Ours, 1)(1))
	}
	end := func() {
		for _, w := range worlds {
			w.end()
		}
	}
	return world{procs, alone, func(worker int, s *stream) { worlds[worker].run(0, s) }, end, 0}
}

func forced(peer string) func(int) world {
	return func(procs int) world {
		p := purgatories.New(peer)
		sets := make([][]string, 1<<12)
		for i := range sets {
			at := rand.New(rand.NewPCG(4, uint64(i))).Perm(100)
			for _, key := range at[:3] {
				sets[i] = append(sets[i], fmt.Sprintf("shared-%d", key))
			}
		}
		return world{procs, alone, func(worker int, s *stream) {
			lane := purgatories.NewLane()
			var ops [64]purgatories.Operation
			for at := worker * 997; s.more(int64(len(ops))); {
				lane.Expect(len(ops))
				for i := range ops {
					ops[i] = p.Submit(lane, lifetime, sets[at%len(sets)])
					at++
				}
				for _, op := range ops {
					p.Force(op)
				}
			}
		}, p.Close, 0}
	}
}

func hot(peer string) func(int) world {
	return func(procs int) world {
		p := purgatories.New(peer)
		key := []string{hotKey}
		return world{procs, alone, func(_ int, s *stream) {
			lane := purgatories.NewLane()
			lane.Expect(1 << 40)
			for s.more(1) {
				p.Force(p.Submit(lane, lifetime, key))
			}
		}, p.Close, 0}
	}
}

func ourHerd(int) world {
	p, err := purgatory.New[string]("herd")
	must(err)
	h := newHerd()
	h.await = func(seen int64) {
		must(p.Await(context.Background(), lifetime, func() bool { return h.round.Load() > seen }, hotKey))
	}
	h.wake = func() { p.CheckAndComplete(hotKey) }
	return world{herdSize + 1, together, h.run, func() { must(p.Close()) }, 100 * time.Millisecond}
}

func condHerd(int) world {
	var mu sync.Mutex
	cond := sync.NewCond(&mu)
	h := newHerd()
	h.await = func(seen int64) {
		mu.Lock()
		defer mu.Unlock()
		for h.round.Load() <= seen {
			cond.Wait()
		}
	}
	h.wake = func() {
		mu.Lock() // a goroutine that has seen the old round waits by now
		defer mu.Unlock()
		cond.Broadcast()
	}
	return world{herdSize + 1, together, h.run, func() {}, 100 * time.Millisecond}
}

// herd has worker 0 wake the others whenever all of them have come to wait.
type herd struct {
	await func(seen int64) // returns when round is greater
	wake  func()
	round atomic.Int64
	_     [56]byte
	come  atomic.Int64 // in this round
	left  atomic.Int64 // those that go on
}

func newHerd() *herd {
	h := new(herd)
	h.left.Store(herdSize)
	return h
}

// together is the number of the one stream of a herd.
func together(int) int { return 0 }

func (h *herd) run(worker int, s *stream) {
	if worker > 0 {
		for n := int64(0); s.more(n); n = 1 {
			seen := h.round.Load()
			h.come.Add(1)
			h.await(seen)
		}
		h.left.Add(-1)
		return
	}
	for h.left.Load() > 0 {
		if h.come.Load() < herdSize && !s.over.Load() {
			runtime.Gosched()
			continue
		}
		s.lapped(herdSize)
		h.come.Store(0)
		h.round.Add(1)
		h.wake()
		runtime.Gosched()
	}
	h.left.Store(herdSize)
	h.come.Store(0)
}

func afterFunc(procs int) world {
	return world{procs, alone, func(_ int, s *stream) {
		for s.more(1) {
			time.AfterFunc(lifetime, func() {}).Stop()
		}
	}, func() {}, 0}
}

func semaphores(procs int) world {
	sem := semaphore.NewWeighted(int64(max(procs/2, 1)))
	return world{procs, alone, func(_ int, s *stream) {
		for s.more(1) {
			must(sem.Acquire(context.Background(), 1))
			sem.Release(1)
		}
	}, func() {}, 0}
}
