package programs

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// program is what the goroutines of one run do. It is drawn from a seed.
type program struct {
	seed       uint64
	keys       int // key i is on shard i, or all are on one
	shards     int
	maxPending int // 0: no bound
	workers    int
	purge      int // WithPurgeInterval
	clock      clockKind
	observed   bool // WithDiagnostics, and a logger that calls back
	kept       bool // WithPlaceKept
	alone      bool // WithoutReaper: the driver of the shared timer is alone
	timerFull  bool // the bound is that of the timer, which is not the purgatory's own
	perKey     int  // WithMaxPendingPerKey, 0: no bound
	none       bool // WithMaxPending(0): nobody may wait
	grace      int  // WithStallGrace of the timer, in ticks
	rude       bool // the panic handler ends its goroutine
	wheels     int  // shards of the timer
	foreign    bool // there is a second purgatory
	crowd      int  // operations on keys of their own, all on the one shard, that end while their keys are signalled
	ops        []op
	goroutines [][]step // the first one runs in Setup, before the others begin
}

// op is an operation.
type op struct {
	keys     []int
	needs    need
	timeout  int  // ticks
	position int  // of its waits, 0: none
	waits    bool // a goroutine waits for it, and it has no reactions
	how      wait // in which way
	hungUp   bool // the context of its wait has ended before it begins
	strange  bool // the context of its wait is not one of package context
	endless  bool // NoTimeout; the first Extend, which adds the timeout, gives it a deadline
	wheel    int  // the shard of the timer that it is on
	inTry    []reaction
	inDone   []reaction
	inExpire []reaction
}

// wait is the verb with which a goroutine waits. With a position, it is the one that ends in At.
type wait uint8

const (
	vAwait wait = iota
	vStartWait
	vAwaitValue
	waitVerbs
)

// need is the condition of an operation.
type need uint8

const (
	anyKey  need = iota // one of its keys has been raised
	allKeys             // all of them have
	item                // one of its keys has an item; the try takes it
	nothing             // is never met
	needs
)

// reaction is what an operation's method does: at its n-th call, or of OnComplete.
type reaction struct {
	at   int
	step step
}

// step is one call.
type step struct {
	verb verb
	key  int
	op   int
	n    int // ticks, or a position
}

// verb is what a step does.
type verb uint8

const (
	vRegister verb = iota
	vRaise         // changes the state of a key, and tells nobody
	vPut           // adds an item to a key, and tells nobody
	vCheck
	vCheckBoth // the key, and the next one, by one call
	vSignal
	vSignalBoth
	vCheckUpTo
	vSignalUpTo
	vForce
	vCancel
	vCancelKey
	vExtend
	vAdvance
	vClose
	vShutdown // with a context that has ended
	vDrain    // Shutdown with a live context; on a manual clock it ends a few polls later
	vLeave    // the context of an Await ends
	vPass     // an operation comes on a key of its own, which is signalled, and goes
	vInspect  // shows the oldest operations
	vKeys     // iterates over the keys
	vStranger // the second purgatory is asked to force, cancel or extend an operation
	vAbroad   // an operation is registered in the second purgatory
	vPanic    // only in reactions
	vGoexit
	verbs
)

var verbNames = [verbs]string{
	"register", "raise", "put", "check", "check2", "signal", "signal2", "checkUpTo", "signalUpTo",
	"force", "cancel", "cancelKey", "extend", "advance", "close", "shutdown", "drain", "leave", "pass",
	"inspect", "keys", "stranger", "abroad", "panic", "goexit",
}

func (s step) String() string {
	switch s.verb {
	case vRegister, vForce, vCancel, vLeave, vAbroad:
		return fmt.Sprintf("%s o%d", verbNames[s.verb], s.op)
	case vStranger:
		return fmt.Sprintf("stranger: %s o%d", [...]string{"force", "cancel", "extend"}[s.n%3], s.op)
	case vExtend:
		return fmt.Sprintf("extend o%d %d", s.op, s.n)
	case vAdvance:
		return fmt.Sprintf("advance %d", s.n)
	case vCheckUpTo, vSignalUpTo:
		return fmt.Sprintf("%s k%d %d", verbNames[s.verb], s.key, s.n)
	case vClose, vShutdown, vDrain, vPass, vInspect, vKeys, vPanic, vGoexit:
		return verbNames[s.verb]
	}
	return fmt.Sprintf("%s k%d", verbNames[s.verb], s.key)
}

// String describes p on one line for each operation and goroutine.
func (p *program) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d shards, %d workers, purge interval %d", p.shards, p.workers, p.purge)
	if p.maxPending > 0 {
		fmt.Fprintf(&b, ", at most %d pending", p.maxPending)
	}
	if p.clock != manual {
		fmt.Fprintf(&b, ", %s", [...]string{"", "the purgatory's own timer and reaper", "a shared timer, a driver and a reaper"}[p.clock])
	}
	for _, option := range []struct {
		on   bool
		text string
	}{
		{p.observed, "with statistics and a logger"},
		{p.kept, "a place is kept until the callbacks have returned"},
		{p.alone, "no reaper"},
		{p.foreign, "a second purgatory"},
		{p.timerFull, "the bound is the timer's"},
		{p.perKey > 0, fmt.Sprintf("at most %d for a key", p.perKey)},
		{p.rude, "the panic handler: goexit"},
		{p.none, "nobody may wait"},
		{p.grace > 0, fmt.Sprintf("a stall has a grace of %d", p.grace)},
		{p.wheels > 1, fmt.Sprint(p.wheels, " wheels")},
	} {
		if option.on {
			b.WriteString(", " + option.text)
		}
	}
	if p.crowd > 0 {
		fmt.Fprintf(&b, ", %d signalled keys come and go before", p.crowd)
	}
	b.WriteByte('\n')
	for i, o := range p.ops {
		if !p.uses(i) {
			continue
		}
		name := "o"
		if o.waits {
			name = [waitVerbs]string{"Await", "StartWait", "AwaitValue"}[o.how] + " o"
		}
		fmt.Fprintf(&b, "  %s%d on k%v, %s, timeout %d", name, i, o.keys, [needs]string{"one raised", "all raised", "takes an item", "never met"}[o.needs], o.timeout)
		if o.position > 0 {
			fmt.Fprintf(&b, ", position %d", o.position)
		}
		if o.endless {
			b.WriteString(", which nothing begins but an Extend")
		}
		if o.strange {
			b.WriteString(", with a context of its own kind")
		}
		if o.hungUp {
			b.WriteString(", its context has ended")
		}
		if p.wheels > 1 {
			fmt.Fprintf(&b, ", wheel %d", o.wheel)
		}
		for _, r := range o.inTry {
			fmt.Fprintf(&b, "; try %d: %v", r.at, r.step)
		}
		for _, r := range o.inDone {
			fmt.Fprintf(&b, "; OnComplete: %v", r.step)
		}
		for _, r := range o.inExpire {
			fmt.Fprintf(&b, "; OnExpiration: %v", r.step)
		}
		b.WriteByte('\n')
	}
	for i, steps := range p.goroutines {
		if len(steps) == 0 {
			continue
		}
		name := fmt.Sprint("  g", i)
		if i == 0 {
			name = "  before"
		}
		for _, s := range steps {
			name += " | " + s.String()
		}
		b.WriteString(name + "\n")
	}
	return b.String()
}

// uses reports whether a step of p names operation i.
func (p *program) uses(i int) bool {
	for _, steps := range p.goroutines {
		for _, s := range steps {
			switch s.verb {
			case vRegister, vForce, vCancel, vExtend, vLeave, vStranger, vAbroad:
				if s.op == i {
					return true
				}
			}
		}
	}
	for _, o := range p.ops {
		for _, r := range slices.Concat(o.inTry, o.inDone) {
			if (r.step.verb == vRegister || r.step.verb == vAbroad) && r.step.op == i {
				return true
			}
		}
	}
	return false
}

// draw returns the program of a seed.
func draw(seed uint64) *program {
	d := &drawer{Rand: rand.New(rand.NewPCG(seed, 1))}
	p := d.program(seed)
	d.Rand = rand.New(rand.NewPCG(seed, 3))
	d.vary()
	d.Rand = rand.New(rand.NewPCG(seed, 4))
	d.leaveEarly()
	d.Rand = rand.New(rand.NewPCG(seed, 5))
	d.unusual()
	return p
}
