package timer

import (
	"math"
	"testing"
	"time"

	"github.com/delayedop/purgatory/internal/entry"
	"github.com/stretchr/testify/require"
)

// checkInvariants checks the structure of every shard. No other goroutine may use the timer
// meanwhile. exact reports whether an entry was placed by its current deadline, and not
// extended since; nil means that all entries were.
func checkInvariants(t testing.TB, s *store, exact func(e *entry.Entry) bool) {
	t.Helper()
	total := 0
	ready := int64(0)
	for i := range s.shards {
		if sh := s.shards[i].Load(); sh != nil {
			total += checkLocked(t, s, sh, i, exact)
			if sh.ready.Load() {
				ready++
			}
		}
	}
	require.Equal(t, ready, s.ready.Load(), "shards that are ready")
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

// setClock moves the clock, and flushes nothing.
func (t *ManualTimer) setClock(now time.Duration) {
	t.now.Store(int64(now))
	t.mu.target = now
}

// taskOf returns the task of e; nil if it is an operation's.
func taskOf(e *entry.Entry) Task {
	if e.OfOperation() {
		return nil
	}
	return taskEntry(e).bound
}

func checkLocked(t testing.TB, s *store, sh *shard, i int, exact func(e *entry.Entry) bool) (entries int) {
	t.Helper()
	sh.mu.Lock()
	defer sh.mu.Unlock() // deferred, because a failed check ends the goroutine
	require.True(t, sh.ready.Load() || sh.mu.due.Empty(), "something is due in shard %d, and it is not ready", i)
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
	for _, e := range listOf(t, &s.mu.spill) {
		own(e)
		entries++
		check(s.next.Load() <= s.timeOf(w.now), "next %d is later than the spill's tick %d", s.next.Load(), w.now)
	}
	check(s.next.Load() <= s.mu.youngAt, "next %d is later than the young have to be placed, %d", s.next.Load(), s.mu.youngAt)
	entries += checkWheel(t, w, func(e *entry.Entry, number, span int64) {
		own(e)
		tick := (e.At-1)/s.tick + 1 + s.phase
		if exact == nil || exact(e) {
			check(tick/span == number, "entry of tick %d in bucket %d, %d ticks wide", tick, number, span)
		} else {
			check(number*span <= tick, "entry of tick %d flushed at tick %d", tick, number*span)
		}
	})
	check(int(s.mu.pending) == entries, "%d entries, %d counted", entries, s.mu.pending)
	_, first, _ := w.next()
	check(s.next.Load() <= s.timeOf(first), "next %d is later than the earliest bucket %d", s.next.Load(), s.timeOf(first))
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
	above, span := w.now, int64(1)
	for l := range w.levels {
		lv := &w.levels[l]
		now := above
		above /= w.size
		check(int64(len(lv.buckets)) == w.size, "level %d has %d buckets of %d", l, len(lv.buckets), w.size)
		check(len(lv.filled) == (len(lv.buckets)+63)/64, "level %d has %d words", l, len(lv.filled))
		if rest := w.size % 64; rest != 0 {
			check(lv.filled[len(lv.filled)-1]>>rest == 0, "level %d: bits beyond the last bucket", l)
		}
		for slot := range w.size {
			bucket := &lv.buckets[slot]
			filled := lv.filled[slot>>6]&(1<<(slot&63)) != 0
			check(filled || bucket.Empty(), "level %d slot %d: bit %t, empty %t", l, slot, filled, bucket.Empty())
			all := listOf(t, bucket)
			if len(all) == 0 {
				continue
			}
			number := above*w.size + slot
			check(number > now, "level %d slot %d has passed, now is %d", l, slot, w.now)
			check(number <= math.MaxInt64/span, "level %d slot %d is out of reach", l, slot)
			for _, e := range all {
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
func listOf(t testing.TB, l *entry.List) (entries []*entry.Entry) {
	var last *entry.Link
	for e := range l.All {
		if last != nil && (e.Prev != last || last.Next != &e.Link) {
			t.Helper()
			require.Fail(t, "a list is not a ring", "after %d entries", len(entries))
		}
		entries, last = append(entries, e), &e.Link
	}
	if last != nil && entries[0].Prev != last.Next {
		t.Helper()
		require.Fail(t, "a list's root does not close the ring")
	}
	return entries
}
