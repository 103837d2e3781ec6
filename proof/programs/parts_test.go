//go:build interleave

package programs

import "slices"

// without returns p without the parts for which removed returns true. The parts are numbered:
// first the steps of each goroutine, then the reactions of each operation, the bound for a key, the crowd,
// the bound, the clock, the options that are on or off, the wheels, and the rarer options.
func (p *program) without(removed func(part int) bool) *program {
	q, n := *p, 0
	keep := func() bool { n++; return !removed(n - 1) }
	q.goroutines = make([][]step, len(p.goroutines))
	for i, steps := range p.goroutines {
		q.goroutines[i] = filter(steps, keep)
	}
	q.ops = slices.Clone(p.ops)
	for i, o := range p.ops {
		q.ops[i].inTry, q.ops[i].inDone, q.ops[i].inExpire = filter(o.inTry, keep), filter(o.inDone, keep), filter(o.inExpire, keep)
	}
	if !keep() {
		q.perKey = 0
	}
	if !keep() {
		q.crowd = 0
	}
	if !keep() {
		q.maxPending = 0
	}
	if !keep() {
		q.clock = manual
	}
	for _, option := range []*bool{&q.observed, &q.kept, &q.alone, &q.foreign, &q.timerFull, &q.rude} {
		if !keep() {
			*option = false
		}
	}
	if !keep() {
		q.wheels = 1
	}
	if !keep() {
		q.none = false
	}
	if !keep() {
		q.grace = 0
	}
	return &q
}

func filter[T any](all []T, keep func() bool) (some []T) {
	for _, x := range all {
		if keep() {
			some = append(some, x)
		}
	}
	return some
}

// awaits reports whether goroutines are left when all that can go on have ended.
func (p *program) awaits() bool {
	return p.clock != manual || slices.ContainsFunc(p.ops, func(o op) bool { return o.waits })
}

// parts returns how many parts p has.
func (p *program) parts() (n int) {
	p.without(func(int) bool { n++; return false })
	return n
}
