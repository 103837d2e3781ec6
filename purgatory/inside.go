package purgatory

import (
	"github.com/delayedop/purgatory/internal/inside"
	"github.com/delayedop/purgatory/internal/machine"
)

func init() {
	inside.Registering = func(p any) bool { return p.(interface{ registering() bool }).registering() }
}

// all is more operations than a shard has, for a Sample of all.
const all = 1 << 26

func (p *DelayedOperationPurgatory[K]) registering() bool {
	for s := range p.watchers.Shards() {
		for _, sampled := range s.Sample(nil, all, 0) {
			if m := sampled.Machine; !m.AcceptedBy(p.id) && m.Outcome() == machine.Pending {
				return true
			}
		}
	}
	return false
}
