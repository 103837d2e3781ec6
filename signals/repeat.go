package signals

import (
	"context"
	"time"

	"github.com/delayedop/purgatory/internal/sched"
)

const (
	// firstPause is how long after a hint it is said again; each later pause is four times as
	// long, so that a lag of any length costs a wait few reads.
	firstPause = 10 * time.Millisecond
	// maxLag bounds the memory for what is said again.
	maxLag = time.Hour
	// maxHeard is how many keys a level remembers. Beyond that it says again that everything
	// has changed.
	maxHeard = 1 << 16
)

// repeats says hints and gaps again, because a read may come from a replica that has not yet
// received the change that a hint is about.
//
// A hint enters the young keys of the first level. Every pause, a level says its old keys
// again and passes them to the next level, and its young keys become old. So the hint is said
// again at least one pause and at most two after it has entered a level, and for the last
// time when at least the sum of all pauses has passed, which is the lag of [WithLag]. A key
// that changes all the time takes two entries in a level.
type repeats[K comparable] struct {
	hint  func(key K, position int64) (awaited bool)
	all   func()      // says that everything has changed
	wake  sched.Token // a level has something to say
	count sched.Int64 // of the keys that were said again

	mu struct {
		sched.Mutex
		levels []level[K]
		said   heard[K] // what was last said for the last time
	}
}

// level has the hints that are said again after one pause.
type level[K comparable] struct {
	pause      time.Duration
	due        time.Time // when old is said again; zero: the level is empty
	young, old heard[K]
}

// heard is a set of hints.
type heard[K comparable] struct {
	all  bool           // everything has changed; keys is nil then
	keys map[K]reported // the highest position of each key
}

// reported is up to which position a key has changed, and when the hint of that came.
type reported struct {
	position int64
	at       time.Duration // since the Runner began
}

// newRepeats returns repeats whose pauses have the sum lag. It has no level if lag is 0.
func newRepeats[K comparable](lag time.Duration, hint func(K, int64) bool, all func()) *repeats[K] {
	r := &repeats[K]{hint: hint, all: all, wake: sched.NewToken()}
	for pause := firstPause; lag > 0; pause *= 4 {
		if lag < 2*pause {
			pause = lag
		}
		r.mu.levels = append(r.mu.levels, level[K]{pause: pause})
		lag -= pause
	}
	return r
}

// add remembers a hint.
func (r *repeats[K]) add(key K, hint reported) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.mu.levels) > 0 {
		r.mu.levels[0].young.add(key, hint)
		r.plannedLocked()
	}
}

// addAll remembers a gap.
func (r *repeats[K]) addAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.mu.levels) > 0 {
		r.mu.levels[0].young = heard[K]{all: true}
		r.plannedLocked()
	}
}

// plannedLocked sees to it that the first level is due.
func (r *repeats[K]) plannedLocked() {
	l := &r.mu.levels[0]
	if !l.due.IsZero() {
		return
	}
	l.due = sched.Now().Add(l.pause)
	r.wake.Put()
}

// run says again what is due, until ctx ends.
func (r *repeats[K]) run(ctx context.Context) {
	pause := time.Duration(0)
	for sched.Sleep(pause, r.wake, ctx.Done(), nil) != sched.Stopped {
		said, next := r.tick(sched.Now())
		for _, h := range said {
			if h.all {
				r.all()
			}
			for key, hint := range h.keys {
				r.hint(key, hint.position)
			}
			r.count.Add(int64(len(h.keys)))
		}
		pause = never
		if !next.IsZero() {
			pause = -sched.Since(next)
		}
	}
}

// tick turns the levels that are due. It returns what is to be said again, and when the next
// level is due; zero: all are empty. Only the goroutine of run adds to a level other than the
// first, so that it may read what tick has returned without the lock until the next tick.
func (r *repeats[K]) tick(now time.Time) (said []heard[K], next time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := len(r.mu.levels) - 1; i >= 0; i-- { // backwards, so that what has just entered a level is young there
		l := &r.mu.levels[i]
		if !l.due.IsZero() && !l.due.After(now) {
			out := l.old
			l.old, l.young = l.young, heard[K]{}
			l.due = now.Add(l.pause)
			if l.old.empty() {
				l.due = time.Time{}
			}
			if !out.empty() {
				said = append(said, out)
				if i+1 < len(r.mu.levels) {
					r.mu.levels[i+1].enter(out, now)
				}
			}
			if i+1 == len(r.mu.levels) {
				r.mu.said = out
			}
		}
	}
	for _, l := range r.mu.levels {
		if !l.due.IsZero() && (next.IsZero() || l.due.Before(next)) {
			next = l.due
		}
	}
	return said, next
}

// enter adds hints to the young ones of l.
func (l *level[K]) enter(h heard[K], now time.Time) {
	switch {
	case l.young.empty():
		l.young = h
	case h.all:
		l.young = h
	default:
		for key, hint := range h.keys {
			l.young.add(key, hint)
		}
	}
	if l.due.IsZero() {
		l.due = now.Add(l.pause)
	}
}

func (h *heard[K]) empty() bool { return !h.all && len(h.keys) == 0 }

func (h *heard[K]) add(key K, hint reported) {
	if h.all {
		return
	}
	if before, ok := h.keys[key]; ok {
		if hint.position > before.position {
			h.keys[key] = hint
		}
		return
	}
	if len(h.keys) == maxHeard {
		*h = heard[K]{all: true}
		return
	}
	if h.keys == nil {
		h.keys = make(map[K]reported)
	}
	h.keys[key] = hint
}

// behind returns when the earliest hint came, of those that are remembered, that is for a position of
// key above this one. It reports whether there is one.
func (r *repeats[K]) behind(key K, position int64) (at time.Duration, found bool) {
	look := func(h heard[K]) {
		hint, ok := h.keys[key]
		if ok && hint.position > position && hint.position != Unknown && (!found || hint.at < at) {
			at, found = hint.at, true
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	look(r.mu.said)
	for _, l := range r.mu.levels {
		look(l.young)
		look(l.old)
	}
	return at, found
}
