package purgatory_test

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// chaos is a purgatory whose operations wait until one of their keys has reached a level.
// Everything that user code may do it does: it panics, calls runtime.Goexit, checks and
// signals from every method.
type chaos struct {
	p      *intPurgatory
	levels []atomic.Int64
	unruly bool // user code unwinds
	nested bool // user code checks and signals
}

// call names keys to the purgatory in one of the ways that there are. The first is the key
// that has changed.
func (c *chaos) call(keys ...int) {
	switch rand.IntN(9) {
	case 0:
		c.p.CheckAndComplete(keys[0])
	case 1:
		c.p.CheckAndComplete(keys...)
	case 2:
		c.p.Signal(keys[0])
	case 3, 4, 5:
		c.p.Signal(keys...)
	case 6:
		c.p.CheckAndCompleteUpTo(keys[0], c.levels[keys[0]].Load())
	case 7:
		c.p.SignalUpTo(keys[0], c.levels[keys[0]].Load())
	case 8:
		switch rand.IntN(40) {
		case 0:
			c.p.SignalAll()
		case 1:
			c.p.CheckAndCompleteAll()
		default:
			c.p.CheckAndComplete(keys...)
		}
	}
}

func (c *chaos) keys(first int) []int {
	keys := []int{first}
	for range rand.IntN(4) {
		keys = append(keys, rand.IntN(len(c.levels)))
	}
	rand.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	for i, k := range keys {
		if k == first {
			keys[0], keys[i] = keys[i], keys[0]
		}
	}
	return keys
}

func (c *chaos) unwind(n int) {
	if !c.unruly {
		return
	}
	switch rand.IntN(n) {
	case 0:
		panic("chaos")
	case 1:
		runtime.Goexit()
	}
}

type chaotic struct {
	operation.DelayedOperation
	c      *chaos
	key    int // the one that matters
	level  int64
	busy   atomic.Int32
	done   atomic.Int32
	nested atomic.Int32
}

func (o *chaotic) met() bool { return o.c.levels[o.key].Load() >= o.level }

func (o *chaotic) TryComplete() bool {
	if o.busy.Add(1) != 1 {
		panic("overlap")
	}
	defer o.busy.Add(-1)
	met := o.met() // before anything else
	if o.c.nested && rand.IntN(20) == 0 && o.nested.Add(1) < 20 {
		o.c.call(o.c.keys(rand.IntN(len(o.c.levels)))...)
	}
	if !met {
		o.c.unwind(60)
	}
	return met
}

func (o *chaotic) String() string {
	if o.busy.Add(1) != 1 {
		panic("overlap")
	}
	defer o.busy.Add(-1)
	o.c.unwind(10)
	return "chaotic"
}

func (o *chaotic) OnComplete() {
	if o.busy.Add(1) != 1 {
		panic("overlap")
	}
	defer o.busy.Add(-1)
	o.done.Add(1)
	if o.c.nested && rand.IntN(20) == 0 {
		k := rand.IntN(len(o.c.levels))
		o.c.levels[k].Add(1)
		o.c.call(o.c.keys(k)...)
	}
	o.c.unwind(60)
}
func (o *chaotic) OnExpiration() { o.c.unwind(10) }

func (c *chaos) register() *chaotic {
	o := &chaotic{c: c, key: rand.IntN(len(c.levels))}
	o.level = c.levels[o.key].Load() + 1 + rand.Int64N(3)
	keys := c.keys(o.key)
	timeout := hour
	if rand.IntN(30) == 0 {
		timeout = time.Duration(rand.IntN(3)) * time.Millisecond
	}
	accepted := make(chan error, 2)
	inBackground(func() {
		defer func() { accepted <- nil }()
		var err error
		if rand.IntN(2) == 0 {
			_, err = c.p.TryCompleteElseWatch(o, timeout, keys...)
		} else {
			at := make([]purgatory.KeyPosition[int], len(keys))
			for i, k := range keys {
				at[i] = purgatory.KeyPosition[int]{Key: k, Position: o.level}
				if k != o.key {
					at[i].Position = purgatory.AnyPosition
				}
			}
			_, err = c.p.TryCompleteElseWatchAt(o, timeout, at...)
		}
		if err != nil {
			accepted <- err
		}
	})()
	if err := <-accepted; err != nil {
		return nil
	}
	return o
}

func TestChaosLosesNothing(t *testing.T) {
	before := slog.Default()
	slog.SetDefault(slog.New(slog.DiscardHandler)) // panic handlers panic, too
	defer slog.SetDefault(before)
	for name, c := range map[string]*chaos{
		"calm":   {},
		"nested": {nested: true},
		"unruly": {unruly: true},
		"both":   {unruly: true, nested: true},
	} {
		for _, shards := range []int{1, 64} {
			n := name
			if shards == 1 {
				n += ", one shard"
			}
			t.Run(n, func(t *testing.T) { c := chaos{unruly: c.unruly, nested: c.nested}; c.run(t, shards) })
		}
	}
}

func (c *chaos) run(t *testing.T, shards int) {
	c.levels = make([]atomic.Int64, 7)
	c.p = open[int](t,
		purgatory.WithWatcherShards(shards), purgatory.WithSignalWorkers(3), purgatory.WithReapInterval(5*time.Millisecond),
		purgatory.WithPanicHandler(func(v any, _ []byte) {
			if v == "overlap" {
				t.Error("overlap")
			}
			c.unwind(10)
		}),
		purgatory.WithLogger(slog.New(slog.DiscardHandler)))
	var mu sync.Mutex
	var all []*chaotic
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 400 {
				if o := c.register(); o != nil {
					mu.Lock()
					all = append(all, o)
					mu.Unlock()
				}
			}
		})
	}
	for range 3 {
		wg.Go(func() {
			for range 300 {
				inBackground(func() {
					k := rand.IntN(len(c.levels))
					c.levels[k].Add(1)
					c.call(c.keys(k)...)
				})()
			}
		})
	}
	wg.Go(func() {
		for range 20 {
			inBackground(func() { c.p.Inspect(3, 10) })()
			inBackground(func() { c.p.CancelForKey(rand.IntN(len(c.levels)), nil) })()
		}
	})
	wg.Wait()
	lost := func() (lost []*chaotic) {
		for _, o := range all {
			if o.done.Load() == 0 && (o.met() || o.Outcome() != operation.Pending) {
				lost = append(lost, o)
			}
		}
		return lost
	}
	missing := lost()
	for deadline := time.Now().Add(patience / 10 * 9); len(missing) > 0 && time.Now().Before(deadline); missing = lost() {
		time.Sleep(time.Millisecond)
	}
	for _, o := range missing {
		t.Errorf("lost: %v, condition %v, done %v", o.Outcome(), o.met(), o.done.Load())
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	inBackground(func() { _ = c.p.Shutdown(ctx) })()
	inBackground(func() { _ = c.p.Close() })()
	long, cancel := context.WithTimeout(context.Background(), patience/10*9)
	defer cancel()
	var err error
	for { // user code may unwind Shutdown
		returned := false
		inBackground(func() { err = c.p.Shutdown(long); returned = true })()
		if returned {
			break
		}
	}
	require.NoError(t, err)
	for _, o := range all {
		if o.done.Load() != 1 {
			t.Errorf("%v, answered %d times", o.Outcome(), o.done.Load())
		}
	}
	assert.Zero(t, c.p.NumDelayed())
	assert.Zero(t, c.p.Watched())
	s := c.p.Stats()
	assert.Zero(t, s.Running)
	assert.Equal(t, s.Accepted, s.Satisfied+s.Forced+s.Expired+s.Cancelled+s.Closed)
}
