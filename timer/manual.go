package timer

import (
	"fmt"
	"time"

	"github.com/delayedop/purgatory/internal/sched"
)

// ManualTimer is a timer whose clock the program moves: for tests, and for servers that count ticks, as raft's do. It
// starts no goroutine.
//
// Tasks run on the goroutine that moves the clock, one after the other, before AdvanceClock returns, those that were
// due when they were added, too. One that blocks holds up the clock only. If one calls runtime.Goexit, the clock moves
// on before the goroutine ends.
type ManualTimer struct {
	store
	now sched.Int64 // in ns; only the goroutine that moves the clock writes it
	mu  struct {    // lock level 8, see docs/internals/design.md
		sched.Mutex
		target time.Duration
		moving bool // a goroutine is inside AdvanceClock
	}
}

// NewManualTimer returns a timer whose clock stands at 0. [WithWorkers] and [WithLogger] have no effect on it.
//
// Error: [ErrInvalid].
func NewManualTimer(opts ...Option) (*ManualTimer, error) {
	t := &ManualTimer{}
	if err := t.init(1, opts, t); err != nil {
		return nil, err
	}
	return t, nil
}

func (t *ManualTimer) need(int64) {}

func (t *ManualTimer) end() {}

func (t *ManualTimer) read() time.Duration { return time.Duration(t.now.Load()) }

func (t *ManualTimer) advance(stop <-chan struct{}, d time.Duration) (ran bool) {
	if d < 0 {
		panic(fmt.Sprintf("timer: AdvanceClock(%v): the clock does not go back", d))
	}
	if sched.Closed(stop) {
		return false
	}
	t.mu.Lock()
	t.mu.target = min(Deadline(t.mu.target, d), Never-1)
	moving := t.mu.moving
	t.mu.moving = true
	t.mu.Unlock()
	return !moving && t.move()
}

// move moves the clock to the target, step by step, but not while entries are due.
func (t *ManualTimer) move() (ran bool) {
	arrived := false
	defer func() {
		if !arrived { // a task has called runtime.Goexit
			t.move()
		}
	}()
	for {
		for t.anyReady() {
			ran = t.runDue() || ran
		}
		if arrived = t.step(); arrived {
			return ran
		}
		t.flush(t.read())
	}
}

// step moves the clock to where a shard has to be flushed next, or else to the target, where the move ends.
func (t *ManualTimer) step() (arrived bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := t.next()
	if arrived = at > int64(t.mu.target); arrived {
		at, t.mu.moving = int64(t.mu.target), false
	}
	t.now.Store(max(t.now.Load(), at))
	return arrived
}
