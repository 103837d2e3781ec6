package watchers

import (
	"sync/atomic"
	"time"
)

// sighting is what the last call of Blocked has seen of a gate: 0 if nobody was inside, else since when somebody is and
// nobody comes out, in milliseconds on the clock of these calls and plus 1, in the low bits, and above them the
// count of exits. It is one word, since a shard has room for no more.
type sighting struct{ word atomic.Uint64 }

const sinceBits = 48

// Blocked reads every gate. It returns for how long, at least, a goroutine has been inside of one that
// nobody has left meanwhile: user code that blocks, or takes long. If anew is true it forgets what earlier
// calls have seen: when the process has stalled, the time that has passed says nothing about user code.
//
// A goroutine is inside for that long:
//
//  1. An earlier call has seen a goroutine inside, and the gate's count of exits.
//  2. This call, and each in between, has seen the same count. So nobody has left the gate, and the goroutine
//     of step 1 is inside. (The count wraps around: for a mistake, a multiple of 64 exits that have answered
//     a multiple of 1,024 operations would have to fall between any two calls.)
//
// Blocked reads no clock, and costs nothing to those who enter and leave. It does not see a goroutine that
// blocks inside a gate which others keep leaving. It is safe for concurrent use: of two calls at a time,
// one overwrites what the other has seen, and the time becomes shorter at most.
func (w *Watchers[K]) Blocked(now time.Duration, anew bool) (longest time.Duration) {
	for s := range w.Shards() {
		longest = max(longest, s.seen.note(&s.ownGate, now.Milliseconds(), anew))
	}
	return longest
}

func (s *sighting) note(g *Gate, now int64, anew bool) time.Duration {
	state, before := g.state.Load(), s.word.Load()
	if state&insideMask == 0 {
		if before != 0 {
			s.word.Store(0)
		}
		return 0
	}
	exits := state>>exitShift | state>>insideBits<<6&(1<<16-1)
	since := int64(before & (1<<sinceBits - 1))
	if anew || since == 0 || before>>sinceBits != exits {
		since = now + 1
		s.word.Store(exits<<sinceBits | uint64(since))
	}
	return time.Duration(now+1-since) * time.Millisecond
}
