//go:build interleave

package explore

import (
	"math/rand/v2"
	"slices"
)

// maxDepth is the largest depth of PCT. Almost all known defects have a depth of at most 3.
const maxDepth = 5

// Random runs the scenario under n schedules that depend on seed only. It stops at the first
// failure.
func (e Exploration) Random(seed uint64, n int) (r Result) {
	source := rand.NewPCG(seed, 0)
	dice := rand.New(source)
	p, w := &pct{dice: dice}, &walk{dice: dice}
	seen := make(map[uint64]bool, n)
	for i := range n {
		source.Seed(seed, uint64(i))
		var by strategy = w
		if i%2 == 1 { // the first walk says how many points there are
			p.begin(1+dice.IntN(maxDepth), r.Points)
			by = p
		} else {
			w.every = 1 << (2 * dice.IntN(3))
		}
		s := execute(e.Setup, by, false)
		seen[hash(s.moves)] = true
		if r.add(s) {
			break
		}
	}
	r.Distinct = len(seen)
	return r
}

// walk lets any thread run, with equal probability, at one in every points.
type walk struct {
	dice  *rand.Rand
	every int
}

func (w *walk) spawned(*thread) {}

func (w *walk) stays(*run, *thread) bool { return w.every > 1 && w.dice.IntN(w.every) > 0 }

func (w *walk) pick(_ *thread, options []*thread) *thread {
	return options[w.dice.IntN(len(options))]
}

// pct runs the thread with the highest priority. At each of its change points, the thread that
// runs gets a priority below all others.
type pct struct {
	dice    *rand.Rand
	changes []int // points, descending
	lowest  int
	fresh   bool // a thread was made since the last pick
}

// begin prepares a schedule of depth d of a scenario with k points.
func (p *pct) begin(d, k int) {
	p.changes, p.lowest = p.changes[:0], 0
	for range d - 1 {
		p.changes = append(p.changes, 1+p.dice.IntN(max(1, k)))
	}
	slices.SortFunc(p.changes, func(a, b int) int { return b - a })
}

func (p *pct) spawned(t *thread) {
	t.priority = 1 + p.dice.IntN(1<<30) // that two are equal is as good as impossible
	p.fresh = true
}

// stays reports whether nothing has changed since me was found to have the highest priority.
func (p *pct) stays(s *run, me *thread) bool {
	changed := p.fresh || s.asleep > 0
	for n := len(p.changes); n > 0 && s.points >= p.changes[n-1]; n = len(p.changes) {
		p.changes = p.changes[:n-1]
		p.lowest--
		me.priority = p.lowest
		changed = true
	}
	return !changed
}

func (p *pct) pick(_ *thread, options []*thread) *thread {
	p.fresh = false
	return slices.MaxFunc(options, func(a, b *thread) int { return a.priority - b.priority })
}
