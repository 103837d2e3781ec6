package programs

import (
	"math/rand/v2"
	"slices"
)

// drawer draws a program. Each program has only some of the verbs: a program that has all of
// them seldom reaches what needs several calls of one of them.
type drawer struct {
	*rand.Rand
	p     *program
	verbs []verb // of this program's steps; one occurs several times if it is likelier
}

// oneIn reports true with a probability of 1/n.
func (d *drawer) oneIn(n int) bool { return d.IntN(n) == 0 }

func (d *drawer) program(seed uint64) *program {
	d.p = &program{seed: seed, keys: 1 + d.IntN(3), workers: 1 + d.IntN(2), purge: []int{0, 1, 1000}[d.IntN(3)]}
	p := d.p
	for p.shards = 1; p.shards < p.keys; p.shards *= 2 {
	}
	if d.oneIn(3) {
		p.maxPending = 1 + d.IntN(3)
	}
	calls := []verb{
		vRaise, vPut, vCheck, vCheckBoth, vSignal, vSignalBoth, vCheckUpTo, vSignalUpTo, vCheck, vSignal, vForce,
		vCancel, vCancelKey, vExtend, vAdvance, vClose, vShutdown, vDrain, vLeave,
	}
	if d.oneIn(4) { // the order in which keys are visited depends on hashes: only calls of single keys
		p.crowd = 1<<(6+d.IntN(2)) - d.IntN(3)
		p.maxPending, p.shards = 0, 1
		p.keys = 2 + d.IntN(2)
		calls = []verb{vCheck, vForce, vCancel, vCancelKey, vAdvance}
	}
	d.Shuffle(len(calls), func(i, j int) { calls[i], calls[j] = calls[j], calls[i] })
	tells := [][]verb{{vCheck}, {vSignal}, {vCheck, vSignal}}
	d.verbs = append(append(calls[:1+d.IntN(4)], vRaise), tells[d.IntN(3)]...)
	if p.crowd > 0 {
		d.verbs = append(d.verbs, vPass, vPass, vSignal)
	}
	if p.crowd == 0 && d.oneIn(3) {
		p.clock = clockKind(1 + d.IntN(2))
	}
	many := d.oneIn(16) && p.crowd == 0
	n := 1 + d.IntN(4)
	if many {
		n = 1 + d.IntN(30)
	}
	for range n {
		p.ops = append(p.ops, d.op())
	}
	n = 2 + d.IntN(3)
	if many {
		n = 10 + d.IntN(91)
	}
	p.goroutines = make([][]step, 1+n)
	for i := range p.goroutines {
		steps := 1 + d.IntN(3)
		if many {
			steps = 1
		}
		if i == 0 {
			steps = d.IntN(3)
		}
		for range steps {
			p.goroutines[i] = append(p.goroutines[i], d.steps()...)
		}
	}
	for i := range p.ops { // each is registered once, some twice, some never
		for d.IntN(8) > 0 {
			g := d.IntN(len(p.goroutines))
			if p.ops[i].waits { // nothing could end a wait before the others begin
				g = max(1, g)
			}
			steps := p.goroutines[g]
			at := d.IntN(len(steps) + 1)
			p.goroutines[g] = append(append(append([]step(nil), steps[:at]...), step{verb: vRegister, op: i}), steps[at:]...)
			if d.IntN(8) > 0 {
				break
			}
		}
	}
	return p
}

func (d *drawer) op() op {
	o := op{needs: need(d.IntN(int(needs))), timeout: 1 + d.IntN(4)}
	if o.needs == nothing && d.oneIn(2) {
		o.needs = anyKey
	}
	if d.oneIn(10) {
		o.timeout = 0
	}
	keys := 1 + d.IntN(d.p.keys)
	if d.p.crowd > 0 {
		keys = 1
	}
	o.keys = append(o.keys, d.Perm(d.p.keys)[:keys]...)
	if d.oneIn(8) || (slices.Contains(d.verbs, vSignalUpTo) || slices.Contains(d.verbs, vCheckUpTo)) && d.oneIn(2) {
		o.position = 1 + d.IntN(2)
	}
	if d.oneIn(5) {
		o.waits = true
		if how := min(wait(d.IntN(4)), vAwaitValue); o.position == 0 { // a wait for a position has one form
			o.how = how
		}
		return o
	}
	for d.oneIn(4) {
		o.inTry = append(o.inTry, d.reaction())
	}
	for d.oneIn(3) {
		o.inDone = append(o.inDone, d.reaction())
	}
	return o
}

func (d *drawer) reaction() reaction {
	r := reaction{at: 1 + d.IntN(3)}
	switch d.IntN(6) {
	case 0:
		r.step.verb = vPanic
	case 1:
		r.step.verb = vGoexit
	case 2:
		r.step = step{verb: vRegister, op: d.IntN(4)}
	default:
		steps := d.steps()
		if r.step = steps[len(steps)-1]; r.step.verb == vShutdown || r.step.verb == vDrain {
			r.step.verb = vSignal
		}
	}
	return r
}

// steps returns a step, or a change and a step that tells of it.
func (d *drawer) steps() []step {
	s := step{verb: d.verbs[d.IntN(len(d.verbs))], key: d.IntN(d.p.keys), op: d.IntN(4), n: 1 + d.IntN(3)}
	switch s.verb {
	case vCheck, vCheckBoth, vSignal, vSignalBoth, vCheckUpTo, vSignalUpTo:
		switch d.IntN(4) {
		case 0, 1:
			return []step{{verb: vRaise, key: s.key}, s}
		case 2:
			return []step{{verb: vPut, key: s.key}, s}
		}
	}
	return []step{s}
}
