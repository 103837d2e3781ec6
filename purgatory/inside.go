package purgatory

import (
	"github.com/delayedop/purgatory/internal/inside"
	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/timer"
)

// insider is a purgatory with keys of any type.
type insider interface {
	registering() bool
	clock() timer.Timer
	drive()
	expireNow(op operation.Operation) bool
}

func init() {
	inside.Registering = func(p any) bool { return p.(insider).registering() }
	inside.Timer = func(p any) timer.Timer { return p.(insider).clock() }
	inside.Drive = func(p any) { p.(insider).drive() }
	inside.Expire = func(p any, op operation.Operation) bool { return p.(insider).expireNow(op) }
}

// everybody is more operations than a shard has, for a Sample of all.
const everybody = 1 << 26

func (p *DelayedOperationPurgatory[K]) registering() bool {
	for s := range p.watchers.Shards() {
		for _, sampled := range s.Sample(nil, everybody, 0) {
			if m := sampled.Machine; !m.AcceptedBy(p.id) && m.Outcome() == machine.Pending {
				return true
			}
		}
	}
	return false
}

func (p *DelayedOperationPurgatory[K]) clock() timer.Timer {
	p.made()
	return p.timer
}

func (p *DelayedOperationPurgatory[K]) drive() {
	if !p.reaping.off.Load() {
		p.startReaper()
	}
}

// expireNow needs no timer: the entry of an operation without a timeout is in none.
func (p *DelayedOperationPurgatory[K]) expireNow(op operation.Operation) bool {
	return p.endNow(op, machine.Expired, nil)
}
