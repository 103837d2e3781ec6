package programs

import "slices"

// vary gives half of the programs options and verbs that the others do not have.
func (d *drawer) vary() {
	p := d.p
	p.wheels = 1
	if d.oneIn(2) {
		return
	}
	p.inLine, p.onWorkers, p.observed = d.oneIn(2), d.oneIn(4), d.oneIn(5)
	verbs := []verb{vCompleteKey, vSignal}
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
	if p.inLine && d.oneIn(2) {
		d.lineUp()
		verbs = slices.DeleteFunc(verbs, func(v verb) bool { return v == vInspect })
	}
	for i := range p.ops {
		p.ops[i].exits = d.oneIn(6)
	}
	change := func(s *step) {
		if s.verb == vRegister || s.verb == vRaise || s.verb == vPut || !d.oneIn(5) {
			return
		}
		if s.verb = verbs[d.IntN(len(verbs))]; s.verb == vSignal && p.ordered() {
			s.verb = vSignalInOrder
		}
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

// lineUp makes a queue of a program: each operation takes an item of one key, and all checks are in
// order.
func (d *drawer) lineUp() {
	p := d.p
	for i := range p.ops {
		o := &p.ops[i]
		o.needs, o.keys, o.position, o.inTry = item, o.keys[:1], 0, nil
		for i := range o.inDone {
			inOrder(&o.inDone[i].step)
		}
	}
	for _, steps := range p.goroutines {
		for i := range steps {
			inOrder(&steps[i])
		}
	}
}

// oneLine makes a queue of a program whose operations all wait for the first key.
func (d *drawer) oneLine() {
	p := d.p
	p.inLine = true
	d.lineUp()
	for i := range p.ops {
		p.ops[i].keys[0] = 0
	}
	line := func(s *step) {
		s.key = 0
		if s.verb == vInspect {
			s.verb = vSignalInOrder
		}
	}
	for _, steps := range p.goroutines {
		for i := range steps {
			line(&steps[i])
		}
	}
	for _, o := range p.ops {
		for i := range o.inDone {
			line(&o.inDone[i].step)
		}
	}
}

func inOrder(s *step) {
	switch s.verb {
	case vRaise:
		s.verb = vPut
	case vCheck, vCheckBoth, vCheckUpTo, vPass:
		s.verb = vCheckInOrder
	case vSignal, vSignalBoth, vSignalUpTo:
		s.verb = vSignalInOrder
	}
}

// ordered reports whether the operations of p get items in order of arrival: all of them wait in
// one line each, and nobody tries one that is not its turn.
func (p *program) ordered() bool {
	for _, steps := range p.goroutines {
		if slices.ContainsFunc(steps, step.outOfTurn) {
			return false
		}
	}
	return p.inLine && p.crowd == 0 && !slices.ContainsFunc(p.ops, func(o op) bool {
		return !o.takesInTurn() || o.position != 0 || slices.ContainsFunc(o.inDone, func(r reaction) bool { return r.step.outOfTurn() })
	})
}

// outOfTurn reports whether s may try an operation that is not the first in its line.
func (s step) outOfTurn() bool {
	switch s.verb {
	case vCheck, vCheckBoth, vSignal, vSignalBoth, vCheckUpTo, vSignalUpTo, vPass, vInspect:
		return true
	}
	return false
}

// takesInTurn reports whether o takes an item of one key, and says no only if there is none.
func (o op) takesInTurn() bool {
	return o.needs == item && len(o.keys) == 1 && len(o.inTry) == 0
}

// leaveEarly gives half of the programs what ends early: contexts that have ended before the wait begins,
// conditions of waits, OnExpiration and handlers that panic or end their goroutine, and a bound for each key.
// Half of the queues get operations that take two items, and so stop those behind them until they leave.
func (d *drawer) leaveEarly() {
	p := d.p
	if d.oneIn(2) {
		return
	}
	if d.oneIn(3) && p.crowd == 0 {
		p.perKey = 1 + d.IntN(2)
	}
	p.rude = d.oneIn(4)
	if p.crowd == 0 && d.oneIn(4) {
		d.oneLine()
	}
	queue := p.ordered()
	heavy := queue && d.oneIn(2)
	unwinds := func() []reaction {
		return []reaction{{at: 1 + d.IntN(3), step: step{verb: []verb{vPanic, vGoexit}[d.IntN(2)]}}}
	}
	for i := range p.ops {
		o := &p.ops[i]
		o.hungUp = o.waits && d.oneIn(6)
		o.two = heavy && d.oneIn(2)
		if d.oneIn(6) {
			o.inExpire = unwinds()
		}
		if o.waits && !queue && d.oneIn(4) {
			o.inTry = unwinds()
		}
	}
	if heavy {
		d.leaver()
	}
}

// leaver lets the first operation of a queue be the first in line, need two items, and leave.
func (d *drawer) leaver() {
	p := d.p
	if p.ops[0].waits {
		return
	}
	p.ops[0].two = true
	p.goroutines[0] = slices.Insert(p.goroutines[0], 0, step{verb: vRegister})
	g := 1 + d.IntN(len(p.goroutines)-1)
	leaves := step{verb: []verb{vCancel, vForce, vAdvance}[d.IntN(3)], n: 4}
	p.goroutines[g] = append(p.goroutines[g], leaves)
}

// unusual gives a third of the programs a bound of nobody, a Shutdown that waits for no callback, a timer that waits after a
// stall, operations without a timeout, or contexts that are not of package context.
func (d *drawer) unusual() {
	p := d.p
	if !d.oneIn(3) {
		return
	}
	p.none = p.crowd == 0 && p.maxPending == 0 && d.oneIn(8)
	p.hasty = d.oneIn(4)
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
