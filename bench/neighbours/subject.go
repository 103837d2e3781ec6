package main

import (
	"math"
	"sync"
	"sync/atomic"
)

// subject is what is compared. It has a number of keys, each with a position that grows,
// and lets callers wait until a key has come as far as they ask. Its methods are called
// from one goroutine.
type subject interface {
	// Start begins a wait. It calls done, on any goroutine, when key has come as far as
	// position, which it has not yet.
	Start(key int, position int64, done func())
	// Advance sets the position of key.
	Advance(key int, position int64)
	// Waiting returns how many waits are registered.
	Waiting() int
	// Close ends what still waits, without done, and returns when its goroutines have ended.
	Close()
}

// maker makes a subject with a number of keys.
type maker struct {
	name string
	make func(keys int) subject
}

var makers = []maker{
	{"purgatory, an operation each", newOperations},
	{"purgatory, `Await`", newAwaits},
	{"Temporal's history notifier", newTemporal},
	{"etcd `WaitTime`", newWaitTime},
	{"`sync.Cond` broadcast", newCond},
}

// never is a position that no key comes to before Close.
const never = math.MaxInt64

// goroutines are those of a subject in which a wait blocks a goroutine.
type goroutines struct {
	all     sync.WaitGroup
	waiting atomic.Int64
	quit    atomic.Bool // set by Close: a wait that ends has not come as far as it asked
}

// ended is called by a waiting goroutine when its wait is over.
func (g *goroutines) ended(done func()) {
	g.waiting.Add(-1)
	if !g.quit.Load() {
		done()
	}
}

func (g *goroutines) Waiting() int { return int(g.waiting.Load()) }
