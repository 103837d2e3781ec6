package timer

import (
	"time"

	"github.com/delayedop/purgatory/internal/entry"
	"github.com/delayedop/purgatory/internal/sched"
)

// shard is one of the timer's wheels with its lock. A scheduled entry is in exactly one list, and can be
// cancelled from each in O(1): young, a bucket of the wheel, spill (from young, or a bucket of a higher level
// that has expired), or due.
type shard struct {
	tick  int64 // in ns
	phase int64 // ticks by which the wheel is ahead of the clock, so that big buckets of shards expire one after the other
	last  int64 // the last tick of the wheel that the clock can reach

	// An entry that is due in more than far, in ns, is young at first (docs/internals/decisions.md#young-entries).
	// None is late because of that:
	//
	//  1. It is due more than far/2 after youngAt: the first one, because youngAt is at most far/4 after now;
	//     later ones, because insert compares them. Extend to an earlier deadline takes an entry out.
	//  2. While young is not empty, next is not after youngAt.
	//  3. A flush after youngAt puts all of them into the wheel.
	far int64

	// next is a lower bound on when this shard has to be flushed, in ns. Additions lower it, and flushes raise it, with mu
	// held.
	next sched.Int64

	mu struct { // lock level 3, see docs/internals/design.md
		sched.Mutex
		pending int64
		reached int64 // a time that the clock has reached, in ns
		youngAt int64 // when young expires, in ns; perhaps after it became empty
		young   entry.List
		wheel   timingWheel
		spill   entry.List
		due     entry.List
	}

	// ready is set if due is not empty and the lock is free, and perhaps after that. It is written with mu held.
	ready sched.Bool
	_     [8]byte

	// youngWait is from the first young entry to youngAt, in ns: far/8 to far/4, another one in each shard.
	youngWait int64
} // three cache lines; no written line is shared with another shard, see TestSizes

// chunk limits what is moved while a shard's lock is held.
const chunk = 128

func newShard(index int, cfg *config) *shard {
	s := &shard{tick: cfg.tick, far: int64(4 * time.Second)}
	i, shards := int64(index), int64(cfg.shardCount)
	s.youngWait = s.far/8 + s.far/8/shards*(i+1)
	// By 1/shards of a bucket of levels 1 and 2; with ticks of 1 ns that would overflow.
	if size := cfg.wheelSize; s.tick > 1 {
		s.phase = i * (size + size*size) / shards
	}
	s.last = s.phase + never/s.tick
	s.mu.wheel.init(cfg.wheelSize, s.phase)
	s.mu.young.Init()
	s.mu.spill.Init()
	s.mu.due.Init()
	s.mu.youngAt = never
	s.next.Store(never)
	return s
}

// timeOf returns when the clock reaches a tick of the wheel, in ns.
func (s *shard) timeOf(tick int64) int64 {
	if tick > s.last {
		return never
	}
	return (tick - s.phase) * s.tick
}

// putLocked puts e into its bucket and returns when that expires, or into due and returns 0. It rounds up, and the
// wheel's now is rounded down: never early.
func (s *shard) putLocked(e *entry.Entry) (at int64) {
	tick := (e.At-1)/s.tick + 1 + s.phase
	if tick <= s.mu.wheel.now {
		s.mu.due.Push(e)
		return 0
	}
	return s.timeOf(s.mu.wheel.put(e, tick))
}

func (s *shard) lowerLocked(list *entry.List) (at int64) {
	e := list.First()
	e.Unlink()
	return s.putLocked(e)
}

// flushLocked moves entries whose buckets have expired towards due, in up to chunk steps: a bucket of the lowest level
// in one, then those of higher levels and young entry by entry. more says that some may be left.
func (s *shard) flushLocked(now int64) (more bool) {
	s.mu.reached = max(s.mu.reached, now)
	w := &s.mu.wheel
	for n := 0; n < chunk; n++ {
		bucket, tick, level := w.next()
		switch at := s.timeOf(tick); {
		case at <= now && level == 0:
			w.now = tick
			s.mu.due.Take(bucket)
		case !s.mu.spill.Empty():
			for ; n < chunk && !s.mu.spill.Empty(); n++ {
				s.lowerLocked(&s.mu.spill)
			}
		case at <= now:
			w.now = tick
			s.mu.spill.Take(bucket)
		case s.mu.youngAt <= now:
			if s.mu.youngAt = never; !s.mu.young.Empty() {
				w.now = max(w.now, now/s.tick+s.phase)
				s.mu.spill.Take(&s.mu.young)
			}
		default:
			s.next.Store(min(at, s.mu.youngAt))
			return false
		}
	}
	return true
}
