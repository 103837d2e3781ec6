package queue

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/timer"
)

var background = context.Background()

func newQueue[T any](t testing.TB, options ...Option) *Queue[T] {
	t.Helper()
	q, err := New[T](options...)
	require.NoError(t, err)
	return q
}

// counted returns a queue of n units.
func counted(t testing.TB, n int, options ...Option) *Queue[struct{}] {
	t.Helper()
	q := newQueue[struct{}](t, options...)
	if n > 0 {
		require.NoError(t, q.Put(struct{}{}, Place{N: n}))
	}
	return q
}

// manual returns a queue on a clock that the test moves. It runs callbacks when it is moved.
func manual[T any](t testing.TB, options ...Option) (*Queue[T], *timer.ManualTimer) {
	t.Helper()
	clock, err := timer.NewManualTimer()
	require.NoError(t, err)
	return newQueue[T](t, append(options, WithTimer(clock))...), clock
}

// started starts a request that does not end by itself.
func started[T any](t testing.TB, q *Queue[T], at ...Place) *Waiter[T] {
	t.Helper()
	w, err := q.Start(timer.Never, nil, at...)
	require.NoError(t, err)
	return w
}

// over reports whether the request has ended.
func over[T any](w *Waiter[T]) bool {
	select {
	case <-w.Done():
		return true
	default:
		return false
	}
}

// gets asserts that the request has ended with that item.
func gets[T any](t testing.TB, w *Waiter[T], item T) {
	t.Helper()
	if assert.True(t, over(w), "it still waits for %v", item) {
		got, err := w.Result()
		require.NoError(t, err)
		assert.Equal(t, item, got)
	}
}

// fails asserts that the request has ended with that error.
func fails[T any](t testing.TB, w *Waiter[T], want error) {
	t.Helper()
	if assert.True(t, over(w), "it still waits, want %v", want) {
		_, err := w.Result()
		assert.ErrorIs(t, err, want)
	}
}

// received returns what comes from c, or fails the test after a minute.
func received[T any](t testing.TB, c <-chan T) (x T) {
	t.Helper()
	select {
	case x = <-c:
	case <-time.After(time.Minute):
		require.Fail(t, "nothing has come in a minute")
	}
	return x
}

// waiting returns how many wait, as Stats does, and allocates nothing.
func waiting[T any](q *Queue[T]) int {
	q.mu.Lock()
	defer q.unlock()
	return q.mu.waiting
}

// check checks the structure of the queue, and that its counters add up.
func check[T any](t testing.TB, q *Queue[T]) {
	t.Helper()
	s := q.Stats()
	q.mu.Lock()
	defer q.mu.Unlock() // deferred, because a failed check ends the goroutine
	kept, waiting, spots := 0, map[*waiter[T]]bool{}, 0
	for _, k := range q.mu.kinds {
		kept += k.units
		checkLine(t, &k.items)
		if !q.units {
			require.Equal(t, k.units, k.items.n)
		}
		for _, x := range checkLine(t, &k.line) {
			waiting[x.of] = true
			spots++
			require.NotEmpty(t, x.of.spots)
		}
		if x := k.line.next(); x != nil {
			require.True(t, x.of.n > k.units || x.of.deadline <= q.timer.Now(), "the next can be served")
		}
		require.True(t, k == &q.mu.main || k.units > 0 || k.line.n > 0, "the kind %q is empty", k.name)
		require.Same(t, k, q.findLocked(k.name, false))
	}
	require.Nil(t, q.mu.ended)
	require.Equal(t, kept, q.mu.kept)
	require.Len(t, waiting, q.mu.waiting)
	tenants := map[string]int{}
	for w := range waiting {
		spots -= len(w.spots)
		if w.tenant != "" {
			tenants[w.tenant]++
		}
	}
	require.Zero(t, spots, "places of those who wait")
	require.Len(t, q.mu.tenants, len(tenants))
	for tenant, n := range tenants {
		require.Equal(t, n, q.mu.tenants[tenant])
	}
	require.Equal(t, s.Put+s.Back, s.Handed+int64(s.Items)+q.mu.returned)
	checkSpares(t, q)
}

// checkSpares checks what is kept for those who come next: it is bounded, and refers to nothing of those who have gone.
func checkSpares[T any](t testing.TB, q *Queue[T]) {
	t.Helper()
	require.LessOrEqual(t, len(q.mu.spares), 64, "items that are kept for the next ones")
	for _, it := range q.mu.spares {
		require.Zero(t, it.item, "an item that was taken stays in memory")
		require.Nil(t, it.node.flow)
	}
	if k := q.mu.spareKind; k != nil {
		require.Zero(t, k.line.n+k.items.n+k.units)
		require.NotSame(t, k, q.mu.kinds[k.name])
	}
	if w, ok := q.waiters.Get().(*waiter[T]); ok {
		require.Zero(t, w.item, "what a Take has got stays in memory")
		require.True(t, w.err == nil && w.gone == nil && w.next == nil && len(w.spots)+len(w.ready) == 0, "a Take has returned, and what it has left is in use")
		q.waiters.Put(w)
	}
}

// checkLine checks the structure of a line, and returns its nodes.
func checkLine[E any](t testing.TB, l *line[E]) (nodes []*node[E]) {
	t.Helper()
	flow := func(f *flow[E]) {
		n := 0
		for c := range f.class {
			var last *node[E]
			for x := f.class[c].head; x != nil; last, x = x, x.next {
				require.Same(t, f, x.flow)
				require.Same(t, last, x.prev)
				require.EqualValues(t, c, x.class)
				require.True(t, last == nil || f == &l.front || last.arrival <= x.arrival, "in order of arrival")
				nodes = append(nodes, x)
				n++
			}
			require.Same(t, last, f.class[c].tail)
			require.Equal(t, last != nil, f.used>>c&1 == 1)
		}
		require.Equal(t, n, f.n)
	}
	l.next()
	now := l.virtual
	named := 0
	for i, f := range l.heap {
		flow(f)
		require.Equal(t, i+1, f.index)
		require.True(t, f.n > 0 || f.tag >= now || l.n == 0, "it owes nothing")
		require.True(t, f.tag >= now || f == &l.front)
		require.True(t, i == 0 || !f.before(l.heap[(i+1)/2-1]), "the heap is in order")
		if f != &l.main && f != &l.front {
			require.Same(t, f, l.flows[f.tenant])
			named++
		}
	}
	require.Len(t, l.flows, named, "no tenant is remembered in vain")
	require.Len(t, nodes, l.n)
	for _, f := range l.heap[len(l.heap):cap(l.heap)] {
		require.Nil(t, f, "a tenant that has gone stays in memory")
	}
	if l.spare != nil {
		require.Zero(t, l.spare.n+l.spare.index+int(l.spare.used), "one that is kept for the next tenant is empty")
		require.Zero(t, l.spare.tag)
	}
	if l.n == 0 {
		require.LessOrEqual(t, len(l.heap), 1)
		require.Zero(t, l.virtual)
		require.Zero(t, l.main.tag)
	}
	return nodes
}

var errCause = errors.New("the cause")
