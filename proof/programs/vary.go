package programs

import "slices"

// vary gives half of the programs options and verbs that the others do not have.
func (d *drawer) vary() {
	p := d.p
	p.wheels = 1
	if d.oneIn(2) {
		return
	}
	p.observed = d.oneIn(5)
	p.kept = p.maxPending > 0 && d.oneIn(2)
	verbs := []verb{vCancelKey, vSignal}
	if p.crowd == 0 { // the order in which a crowd's keys are visited depends on hashes
		verbs = append(verbs, vInspect, vKeys)
		p.alone = p.clock == shared && d.oneIn(2)
		if p.foreign = p.clock != own && d.oneIn(3); p.foreign {
			verbs = append(verbs, vStranger, vStranger, vAbroad, vAbroad)
		}
		p.timerFull = p.maxPending > 0 && p.clock != own && !p.foreign
		if d.oneIn(3) {
			d.spread()
		}
	}
	change := func(s *step) {
		if s.verb == vRegister || s.verb == vRaise || s.verb == vPut || !d.oneIn(5) {
			return
		}
		s.verb = verbs[d.IntN(len(verbs))]
	}
	for _, steps := range p.goroutines {
		for i := range steps {
			change(&steps[i])
		}
	}
	for _, o := range p.ops {
		for i := range o.inTry {
			change(&o.inTry[i].step)
		}
		for i := range o.inDone {
			change(&o.inDone[i].step)
		}
	}
}

// spread puts the operations on several shards of the timer. On which shard an entry is depends on
// its address, so that those that the purgatory makes for waits would be on any.
func (d *drawer) spread() {
	p := d.p
	if slices.ContainsFunc(p.ops, func(o op) bool { return o.waits }) {
		return
	}
	p.wheels = 1 << (1 + d.IntN(2))
	for i := range p.ops {
		p.ops[i].wheel = d.IntN(p.wheels)
	}
}

// leaveEarly gives half of the programs what ends early: contexts that have ended before the wait begins,
// conditions of waits, OnExpiration and handlers that panic or end their goroutine, and a bound for each key.
func (d *drawer) leaveEarly() {
	p := d.p
	if d.oneIn(2) {
		return
	}
	if d.oneIn(3) && p.crowd == 0 {
		p.perKey = 1 + d.IntN(2)
	}
	p.rude = d.oneIn(4)
	unwinds := func() []reaction {
		return []reaction{{at: 1 + d.IntN(3), step: step{verb: []verb{vPanic, vGoexit}[d.IntN(2)]}}}
	}
	for i := range p.ops {
		o := &p.ops[i]
		o.hungUp = o.waits && d.oneIn(6)
		if d.oneIn(6) {
			o.inExpire = unwinds()
		}
		if o.waits && d.oneIn(4) {
			o.inTry = unwinds()
		}
	}
}

// unusual gives a third of the programs a bound of nobody, a timer that waits after a stall, operations without a timeout, or contexts that are not of package context.
func (d *drawer) unusual() {
	p := d.p
	if !d.oneIn(3) {
		return
	}
	p.none = p.crowd == 0 && p.maxPending == 0 && d.oneIn(8)
	if p.clock != manual && d.oneIn(3) {
		p.grace = 1 + d.IntN(3)
		// A Shutdown that waits polls at longer intervals, and each is a stall where nothing else lets time pass: nothing would expire.
		if p.calls(vDrain) {
			p.grace = 0
		}
	}
	// A Shutdown that waits for them would do so for ever, and a timer that is full has no place for the first deadline. What comes
	// behind such a wait finds the purgatories closed, and the second one must not be.
	endless := !p.timerFull && !p.calls(vDrain)
	for i := range p.ops {
		p.ops[i].strange = p.ops[i].waits && d.oneIn(2)
		p.ops[i].endless = endless && (!p.foreign || !p.ops[i].waits) && d.oneIn(4)
	}
}

// calls reports whether a goroutine of p makes a step of this verb.
func (p *program) calls(v verb) bool {
	return slices.ContainsFunc(p.goroutines, func(steps []step) bool {
		return slices.ContainsFunc(steps, func(s step) bool { return s.verb == v })
	})
}
