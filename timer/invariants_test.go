package timer

import (
	"math"
	"testing"

	"github.com/delayedop/purgatory/internal/entry"
	"github.com/stretchr/testify/require"
)

// checkInvariants checks the structure of every shard. No other goroutine may use the timer
// meanwhile. exact reports whether an entry was placed by its current deadline, and not
// extended since; nil means that all entries were.
func checkInvariants(t testing.TB, s *store, exact func(e *entry.Entry) bool) {
	t.Helper()
	total := 0
	for sh := range s.made {
		total += checkLocked(t, s, sh, exact)
	}
	if s.maxPending == 0 {
		total = 0 // without a maximum nobody writes the counter
	}
	if s.pending.Load() != int64(total) {
		require.EqualValues(t, total, s.pending.Load(), "entries counted against the maximum")
	}
}

// shard returns the shard with the given index, which it makes if need be.
func (t *store) shard(i int) *shard {
	var e entry.Entry
	e.Word.Store(uint64(i))
	return t.makeShard(&e)
}

func checkLocked(t testing.TB, s *store, sh *shard, exact func(e *entry.Entry) bool) (entries int) {
	t.Helper()
	i := sh.index
	sh.mu.Lock()
	defer sh.mu.Unlock() // deferred, because a failed check ends the goroutine
	ready := s.ready[i/64].Load()&(1<<(i%64)) != 0
	require.True(t, ready || sh.mu.due.empty(), "something is due in shard %d and its ready bit is not set", i)
	for _, e := range listOf(t, &sh.mu.young) {
		if e.At-sh.mu.youngAt <= sh.far/2 {
			require.Failf(t, "broken invariant of shard", "%d: young entry of %d waits until %d", i, e.At, sh.mu.youngAt)
		}
	}
	return checkShard(t, sh, uint32(i), uint32(len(s.shards)-1), exact)
}

func checkShard(t testing.TB, s *shard, index, mask uint32, exact func(e *entry.Entry) bool) (entries int) {
	t.Helper()
	check := func(ok bool, what string, args ...any) {
		if !ok {
			t.Helper()
			require.Failf(t, "broken invariant of shard", "%d: "+what, append([]any{index}, args...)...)
		}
	}
	w := &s.mu.wheel
	own := func(e *entry.Entry) {
		check(uint32(e.Word.Load())&mask == index, "entry of shard %d", uint32(e.Word.Load())&mask)
		check(taskOf(e) != nil || e.OfOperation(), "entry without a task")
		check(e.At > 0, "entry in a list with deadline %d", e.At)
	}
	for _, e := range listOf(t, &s.mu.due) {
		own(e)
		entries++
	}
	for _, e := range listOf(t, &s.mu.young) {
		own(e)
		entries++
	}
	check(s.next.Load() <= s.youngTick(), "next %d is later than the young have to be placed, %d", s.next.Load(), s.youngTick())
	entries += checkWheel(t, w, func(e *entry.Entry, number, span int64) {
		own(e)
		tick := s.dueTick(e.At) + w.phase
		if exact == nil || exact(e) {
			check(tick/span == number, "entry of tick %d in bucket %d, %d ticks wide", tick, number, span)
		} else {
			check(number*span <= tick, "entry of tick %d flushed at tick %d", tick, number*span)
		}
	})
	check(int(s.mu.pending) == entries, "%d entries, %d counted", entries, s.mu.pending)
	expiration, _, _ := w.next()
	check(s.next.Load() <= expiration, "next %d is later than the earliest bucket %d", s.next.Load(), expiration)
	return entries
}

// checkWheel checks the structure of a wheel, calls each for every entry, with the number and
// the width of its bucket, and returns the number of entries.
func checkWheel(t testing.TB, w *timingWheel, each func(e *entry.Entry, number, span int64)) (entries int) {
	t.Helper()
	check := func(ok bool, what string, args ...any) {
		if !ok {
			t.Helper()
			require.Failf(t, "broken invariant of wheel", what, args...)
		}
	}
	span := int64(1)
	for l := range w.levels {
		lv := &w.levels[l]
		check(lv.span == span, "level %d is %d ticks wide, not %d", l, lv.span, span)
		check(int64(len(lv.buckets)) == w.size, "level %d has %d buckets of %d", l, len(lv.buckets), w.size)
		check(len(lv.filled) == (len(lv.buckets)+63)/64, "level %d has %d words", l, len(lv.filled))
		if rest := w.size % 64; rest != 0 {
			check(lv.filled[len(lv.filled)-1]>>rest == 0, "level %d: bits beyond the last bucket", l)
		}
		for slot := range w.size {
			bucket := &lv.buckets[slot]
			check(bucket.root.At == 0 && bucket.root.Word.Load() == 0, "a root is used as an entry")
			filled := lv.filled[slot>>6]&(1<<(slot&63)) != 0
			check(filled || bucket.empty(), "level %d slot %d: bit %t, empty %t", l, slot, filled, bucket.empty())
			if bucket.empty() {
				check(bucket.root.Prev == &bucket.root, "level %d slot %d: half a ring", l, slot)
				continue
			}
			now := (w.now + w.phase) / span
			ahead := slot - now%w.size
			if ahead < 0 {
				ahead += w.size
			}
			number := now + ahead
			check(number > now, "level %d slot %d expired at %d, now is %d", l, slot, number*span, w.now)
			check(number <= math.MaxInt64/span, "level %d slot %d is out of reach", l, slot)
			for _, e := range listOf(t, bucket) {
				each(e, number, span)
				entries++
			}
		}
		span *= w.size
	}
	return entries
}

// placed returns how many entries lie in each level of the wheels.
func placed(t testing.TB, s *store) (levels []int) {
	for sh := range s.made {
		for l, lv := range sh.mu.wheel.levels {
			if l == len(levels) {
				levels = append(levels, 0)
			}
			for b := range lv.buckets {
				levels[l] += len(listOf(t, &lv.buckets[b]))
			}
		}
	}
	return levels
}

// dueOf returns the number of entries that wait for a worker.
func dueOf(t testing.TB, s *store) (n int) {
	for sh := range s.made {
		n += len(listOf(t, &sh.mu.due))
	}
	return n
}

// listOf returns a list's entries. It fails the test if the list is not a ring in both
// directions.
func listOf(t testing.TB, l *taskList) (entries []*entry.Entry) {
	for e, last := l.root.Next, &l.root; e != &l.root; e, last = e.Next, e {
		if e == nil || e.Prev != last {
			t.Helper()
			require.Fail(t, "a list is not a ring", "after %d entries", len(entries))
		}
		entries = append(entries, e)
	}
	if n := len(entries); n > 0 && l.root.Prev != entries[n-1] || n == 0 && l.root.Prev != &l.root {
		t.Helper()
		require.Fail(t, "a list's root does not close the ring")
	}
	return entries
}
