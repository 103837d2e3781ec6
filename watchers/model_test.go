package watchers

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/internal/machine"
)

// Walks, claims and signals of a few keys, in any order, while operations come and go: each operation that was there when somebody
// asked for a try is visited afterwards, or leaves. A key has one walk at a time, a pass over it visits nobody twice, and at rest
// nothing is left to do.
func TestTheMapAgainstAModel(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			m := newModel(t, seed)
			for range 400 {
				m.step()
				m.check()
			}
			m.rest()
		})
	}
}

// model is the map as it should be.
type model struct {
	t       *testing.T
	rng     *rand.Rand
	w       *Watchers[int]
	keys    int
	live    []*modelled
	walking []*modelWalk // by key: the walk that is under way
	paused  []*modelWalk
	ended   int64
}

// modelled is an operation. The test holds it all the time, as a registration does.
type modelled struct {
	m    *machine.Machine
	keys []int
	at   []int64
	due  map[int]bool // the keys of which somebody has asked for a try since it was visited
}

// modelWalk is a walk that has begun.
type modelWalk struct {
	*Visit[int]
	key    int
	out    []*machine.Machine // that it has read last
	pass   uint32
	seen   map[*machine.Machine]bool // in this pass
	over   bool                      // because a newer walk has begun, or the key has left the map
	number int                       // of steps
}

func newModel(t *testing.T, seed uint64) *model {
	m := &model{t: t, rng: rand.New(rand.NewPCG(seed, 2))}
	m.w, m.keys = newMap(m.rng.IntN(4)), 1+m.rng.IntN(5)
	m.walking = make([]*modelWalk, m.keys)
	for key := range m.keys { // a caller asks first whether it is used
		m.shard(key)
	}
	return m
}

func (m *model) shard(key int) *shard[int] { return m.w.shard(m.w.Hash(key)) }

func (m *model) step() {
	key := m.rng.IntN(m.keys)
	switch m.rng.IntN(11) {
	case 0, 1:
		for range 1 + m.rng.IntN(6) {
			m.watch()
		}
	case 2: // some end, which no walk over the key has found
		m.end(key, m.some(key, m.live))
	case 3: // a check
		upTo := m.asks(key)
		x := &modelWalk{key: key}
		m.begun(x, begin(m.w, &x.Visit, key, upTo, 1+m.rng.IntN(groupSize)))
	case 4:
		upTo := m.asks(key)
		_, awaited := m.w.Ask(m.w.at(key, upTo), false)
		require.Equal(m.t, m.waits(key) > 0, awaited)
	case 5:
		m.work()
	case 6, 7, 8:
		if x := m.walking[key]; x != nil {
			m.next(x, m.rng.IntN(4) == 0)
		}
	case 9:
		if len(m.paused) > 0 {
			m.resume(m.rng.IntN(len(m.paused)))
		}
	case 10:
		m.claim(key)
	}
}

// watch registers an operation.
func (m *model) watch() {
	o := &modelled{due: map[int]bool{}}
	for _, key := range m.rng.Perm(m.keys)[:1+m.rng.IntN(min(m.keys, 3))] {
		o.keys = append(o.keys, key)
		o.at = append(o.at, []int64{anyPosition, anyPosition, 5, m.rng.Int64N(100)}[m.rng.IntN(4)])
	}
	var waits []Wait[int]
	for i, key := range o.keys {
		waits = append(waits, m.w.at(key, o.at[i]))
	}
	o.m = link(m.t, m.w, waits...)
	m.live = append(m.live, o)
}

// some returns some of the live operations of key.
func (m *model) some(key int, among []*modelled) (some []*modelled) {
	n := []int{1, 2, 8, 100}[m.rng.IntN(4)]
	for _, o := range among {
		if slices.Contains(o.keys, key) && len(some) < n && m.rng.IntN(2) == 0 {
			some = append(some, o)
		}
	}
	return some
}

// end ends operations in the shard of key.
func (m *model) end(key int, some []*modelled) {
	s := m.shard(key)
	m.leave(key, some, func() {
		s.lock()
		s.leaveLocked(machinesOf(some))
		s.mu.Unlock()
		leaveOthers[int](machinesOf(some), true)
	})
}

func machinesOf(some []*modelled) (machines []*machine.Machine) {
	for _, o := range some {
		machines = append(machines, o.m)
	}
	return machines
}

// leave has operations of key leave their lists. Perhaps another shard is busy meanwhile.
func (m *model) leave(key int, some []*modelled, leave func()) {
	busy := m.shard(m.rng.IntN(m.keys))
	m.w.Purge()
	stale := 0
	for _, o := range some {
		for _, k := range o.keys {
			if m.shard(k) == busy {
				stale++
			}
		}
	}
	if busy == m.shard(key) || stale > m.w.config.StaleLimit {
		leave()
	} else {
		busy.lock()
		leave()
		require.Equal(m.t, stale, int(m.w.stale.Load()))
		if busy.mu.Unlock(); m.rng.IntN(2) == 0 {
			purged := m.w.purged.Load()
			m.w.Purge()
			require.EqualValues(m.t, stale, m.w.purged.Load()-purged)
		}
	}
	m.left(some)
}

// left settles operations that have left their lists.
func (m *model) left(some []*modelled) {
	settle(machinesOf(some)...)
	m.ended += int64(len(some))
	m.live = slices.DeleteFunc(m.live, func(o *modelled) bool { return slices.Contains(some, o) })
	for k := range m.keys {
		if m.waits(k) == 0 {
			m.over(k)
		}
	}
}

// over ends the walks over key.
func (m *model) over(key int) {
	if x := m.walking[key]; x != nil {
		x.over = true
	}
	for _, x := range m.paused {
		x.over = x.over || x.key == key
	}
}

// asks is what a check or a signal asks for: from now on, those up to the position need a visit.
func (m *model) asks(key int) (upTo int64) {
	upTo = []int64{everyPosition, everyPosition, anyPosition, 5, m.rng.Int64N(100)}[m.rng.IntN(5)]
	for _, o := range m.live {
		if i := slices.Index(o.keys, key); i >= 0 && o.at[i] <= upTo {
			o.due[key] = true
		}
	}
	return upTo
}

// begun notes that x has begun, if it has read any.
func (m *model) begun(x *modelWalk, out []*machine.Machine) {
	if len(out) == 0 {
		return
	}
	if old := m.walking[x.key]; old != nil {
		require.True(m.t, old.over, "two walks at once")
		old.Next(nil, 0, false)
		m.paused = append(m.paused, old)
	}
	m.over(x.key)
	m.walking[x.key] = x
	m.read(x, out)
}

// read notes what x has read.
func (m *model) read(x *modelWalk, out []*machine.Machine) {
	x.out = out
	if x.pass != x.Visit.number || x.seen == nil {
		x.pass, x.seen = x.Visit.number, map[*machine.Machine]bool{}
	}
	if x.number++; x.number > 10_000 {
		require.Fail(m.t, "endless")
	}
	for _, visited := range out {
		i := slices.IndexFunc(m.live, func(o *modelled) bool { return o.m == visited })
		require.NotEqual(m.t, -1, i, "one that has left")
		require.Contains(m.t, m.live[i].keys, x.key)
		require.False(m.t, x.seen[visited], "twice in a pass")
		x.seen[visited] = true
		delete(m.live[i].due, x.key)
	}
}

// next goes on with x: some of those that it has read end.
func (m *model) next(x *modelWalk, pause bool) {
	var ended []*modelled
	for _, o := range m.some(x.key, m.live) {
		if slices.Contains(x.out, o.m) {
			ended = append(ended, o)
		}
	}
	m.w.group = 1 + m.rng.IntN(groupSize)
	m.leave(x.key, ended, func() { x.Next(machinesOf(ended), len(x.out), pause) })
	n := x.N
	switch {
	case x.over:
		require.Zero(m.t, n)
		m.walking[x.key] = nil
		require.Empty(m.t, resume(&x.Visit, 1))
	case pause:
		require.Zero(m.t, n)
		m.walking[x.key], m.paused = nil, append(m.paused, x)
	case n == 0:
		m.walking[x.key] = nil
		x.over = true
		require.Empty(m.t, resume(&x.Visit, 1), "a walk that is over does not go on")
	default:
		m.read(x, group(x.Visit))
	}
}

// resume has the i-th of the paused walks go on.
func (m *model) resume(i int) {
	x := m.paused[i]
	m.paused = slices.Delete(m.paused, i, i+1)
	if out := resume(&x.Visit, 1+m.rng.IntN(groupSize)); len(out) > 0 {
		require.False(m.t, x.over, "a walk that is over goes on")
		m.walking[x.key] = x
		m.read(x, out)
	}
}

// work is a worker, which takes a key out of the queue.
func (m *model) work() (found bool) {
	x := new(modelWalk)
	out, found := take(m.w, &x.Visit)
	if x.Visit != nil {
		x.key = x.Key
	}
	m.begun(x, out)
	return found
}

// claim claims some of those that wait for key, and so ends them.
func (m *model) claim(key int) {
	out := make([]*machine.Machine, 1+m.rng.IntN(8))
	came, waits := 0, m.waits(key)
	n := m.w.Claim(m.w.at(key, 0), func(*machine.Machine) bool {
		came++
		return m.rng.IntN(2) == 0
	}, out)
	require.True(m.t, came == waits || n == len(out), "passed over")
	var ended []*modelled
	for _, o := range m.live {
		if slices.Contains(out[:n], o.m) {
			ended = append(ended, o)
		}
	}
	require.Len(m.t, ended, n, "each is claimed once")
	m.left(ended)
}

// waits returns how many wait for key.
func (m *model) waits(key int) (n int) {
	for _, o := range m.live {
		if slices.Contains(o.keys, key) {
			n++
		}
	}
	return n
}

// check requires that each list has the operations of the model, in their order.
func (m *model) check() {
	checkInvariants(m.t, m.w)
	watched := 0
	for key := range m.keys {
		type place struct {
			m  *machine.Machine
			at int64
		}
		var want, got []place
		for _, o := range m.live {
			if i := slices.Index(o.keys, key); i >= 0 {
				want = append(want, place{o.m, o.at[i]})
				watched++
			}
		}
		slices.SortStableFunc(want, func(a, b place) int { return cmp.Compare(a.at, b.at) }) // anyPosition is the lowest
		if l := m.shard(key).mu.keys.find(key, m.w.Hash(key)); l != nil {
			for w := l.First(); w != nil; w = l.Next(w) {
				if w.Machine != nil && w.Machine.Outcome() == machine.Pending {
					got = append(got, place{w.Machine, w.Position})
				}
			}
		}
		require.True(m.t, slices.Equal(want, got), "key %d: the order in its list", key)
	}
	sum := totals(m.w) // which takes out the stale watches
	require.EqualValues(m.t, len(m.live), sum.Pending)
	require.Equal(m.t, watched, sum.Watched)
	require.Equal(m.t, m.ended, sum.Ended[machine.Satisfied])
}

// rest brings every walk to its end. Nobody is due then, and everybody can leave.
func (m *model) rest() {
	for range 10_000 {
		i := slices.IndexFunc(m.walking, func(x *modelWalk) bool { return x != nil })
		switch {
		case i >= 0:
			m.next(m.walking[i], false)
		case len(m.paused) > 0:
			m.resume(0)
		case !m.work():
			i = m.keys
		}
		if i == m.keys {
			break
		}
	}
	m.check()
	for _, o := range m.live {
		require.Empty(m.t, o.due, "not visited after somebody had asked for it")
	}
	require.Zero(m.t, inside(m.w))
	for len(m.live) > 0 {
		m.end(m.live[0].keys[0], m.live[:1:1])
	}
	m.check()
	sum := totals(m.w)
	require.Zero(m.t, sum.Keys+sum.Watched)
}
