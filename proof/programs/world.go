package programs

import (
	"errors"
	"fmt"
	"hash/maphash"
	"reflect"
	"runtime"
	"sync"
	"time"

	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/timer"
)

// tick is the unit of all durations of a program.
const tick = time.Millisecond

// world is one run of a program: a purgatory, the state on which the operations' conditions
// depend, and what has been seen. Nothing but the program's own goroutines lets time pass,
// and nothing sweeps or purges (except a reaper after an expiry),
// so that nothing repairs what they lose.
//
// The mutex guards the fields below it. It is not one of the library's, so that a scheduler
// does not interrupt its holder, and it is not held while a method of the purgatory runs.
type world struct {
	*program
	p      *purgatory.DelayedOperationPurgatory[int]
	clock  clock
	manual *timer.ManualTimer                        // clock, if it is one
	system *timer.SystemTimer                        // clock, if it is shared
	seed   maphash.Seed                              // of the hashes of p's keys
	abroad *purgatory.DelayedOperationPurgatory[int] // the second purgatory, or nil
	placed int                                       // operations that were put on a shard of the timer
	// settle waits until all goroutines of the program and of the purgatory have ended.
	settle func()
	pass   func(d time.Duration) // lets time pass
	ids    []int                 // the purgatory's keys, by the program's

	mu      sync.Mutex
	last    int     // the key that keyOf has returned last
	now     int     // grows with every event
	raised  []int   // by key: when it was first raised, 0: never
	items   []int   // by key
	put     []int   // by key: when the last item came
	checked []int   // by key: when the last check or signal began that reaches everybody
	reached [][]int // by key and position: when the last check up to that position began
	resting bool    // the program has ended: operations do not react any more
	closing bool    // Close or Shutdown has been called
	down    bool    // Shutdown has returned nil
	ended   int     // how many operations the verbs say that they have ended
	waiters []*waiter
	crowded []*waiter
	faults  []error

	missed []*waiter // one of their keys was not yielded
}

const maxPosition = 3

var errBoom = errors.New("a panic of the program")

func newWorld(p *program, settle func(), pass func(time.Duration)) *world {
	w := &world{program: p, settle: settle, pass: pass}
	w.raised, w.items, w.put, w.checked = make([]int, p.keys), make([]int, p.keys), make([]int, p.keys), make([]int, p.keys)
	for range p.keys {
		w.reached = append(w.reached, make([]int, maxPosition+1))
	}
	var err error
	if w.p, err = purgatory.New[int]("program", w.options()...); err != nil {
		panic(err)
	}
	w.ownClock()
	if p.foreign {
		w.newAbroad()
	}
	w.seed = seedOf(w.p)
	for i := range p.keys {
		w.ids = append(w.ids, w.keyOf(i%p.shards))
	}
	for i := range p.ops {
		w.waiters = append(w.waiters, w.newWaiter(i))
	}
	for range p.crowd { // the workers have not begun, so that all these signals stay queued
		w.passBy()
	}
	for _, o := range w.crowded {
		w.end(o)
	}
	return w
}

// seedOf returns the seed of the hashes of p's keys. The field has this very type, so the conversion of the pointer is safe.
func seedOf(p *purgatory.Purgatory[int]) maphash.Seed {
	return *(*maphash.Seed)(reflect.ValueOf(p).Elem().FieldByName("seed").Addr().UnsafePointer())
}

// keyOf returns a key on the given shard that it has not returned before. Each purgatory has
// another hash seed. So the keys differ from run to run, but their shards do not, and a
// schedule can be repeated.
func (w *world) keyOf(shard int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.last++; int(maphash.Comparable(w.seed, w.last)&uint64(w.shards-1)) != shard; w.last++ {
	}
	return w.last
}

// panicked is the panic handler.
func (w *world) panicked(v any, stack []byte) {
	if err, ok := v.(error); !ok || !errors.Is(err, errBoom) {
		w.fault("panic: %v\n%s", v, stack)
	}
	w.beRude()
}

// passBy lets an operation wait for a key of its own, and signals that.
func (w *world) passBy() *waiter {
	o := &waiter{w: w, id: -1, op: passing}
	id := w.keyOf(0)
	if _, err := w.p.TryCompleteElseWatch(o, time.Hour, id); err != nil {
		if !errors.Is(err, purgatory.ErrClosed) {
			w.fault("pass: %v", err)
		}
		return o
	}
	o.accepted = true
	w.p.Signal(id)
	w.mu.Lock()
	w.crowded = append(w.crowded, o)
	w.mu.Unlock()
	return o
}

// passing is the operation of passBy.
var passing = &op{needs: nothing}

// end ends an operation of passBy.
func (w *world) end(o *waiter) { w.did(w.p.ForceComplete(o)) }

func (w *world) fault(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faultLocked(format, args...)
}

func (w *world) faultLocked(format string, args ...any) {
	if len(w.faults) < 10 {
		w.faults = append(w.faults, fmt.Errorf(format, args...))
	}
}

// did counts an operation that a verb has ended.
func (w *world) did(ended bool) {
	if ended {
		w.count(1)
	}
}

func (w *world) count(n int) {
	w.mu.Lock()
	w.ended += n
	w.mu.Unlock()
}

// run makes the steps of one goroutine.
func (w *world) run(steps []step) {
	for _, s := range steps {
		w.do(s)
	}
}

// before makes the steps of goroutine 0, on a goroutine of its own, which they may end.
func (w *world) before() {
	var done sched.Group
	done.Go(func() { w.run(w.goroutines[0]) })
	done.Wait()
}

// beRude ends the goroutine, where handlers of the program do that.
func (w *world) beRude() {
	w.mu.Lock()
	resting := w.resting
	w.mu.Unlock()
	if w.rude && !resting {
		runtime.Goexit()
	}
}

// react makes a step of a reaction.
func (w *world) react(s step) {
	w.mu.Lock()
	resting := w.resting
	w.mu.Unlock()
	if resting || s.verb == vRegister && s.op < len(w.waiters) && w.waiters[s.op].waits { // a callback must not block
		return
	}
	switch s.verb {
	case vPanic:
		panic(errBoom)
	case vGoexit:
		runtime.Goexit()
	}
	w.do(s)
}
