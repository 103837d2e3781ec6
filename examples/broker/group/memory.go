package group

import (
	"bytes"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// memberBytes is about what a member takes, without what it says of itself.
const memberBytes = 1 << 10

// protocolBytes is how many bytes protocols take.
func protocolBytes(protocols []kmsg.JoinGroupRequestProtocol) (n int) {
	for _, p := range protocols {
		n += len(p.Name) + len(p.Metadata)
	}
	return n
}

// cloneProtocols copies them out of a request, whose memory is not a group's.
func cloneProtocols(protocols []kmsg.JoinGroupRequestProtocol) []kmsg.JoinGroupRequestProtocol {
	var own []kmsg.JoinGroupRequestProtocol
	for _, p := range protocols {
		p.Metadata = bytes.Clone(p.Metadata)
		own = append(own, p)
	}
	return own
}

// countLocked takes from the budget what the group has now, or gives back what it had.
// A request that makes it grow has taken as much before, and gives that back.
func (g *group) countLocked() {
	held := 0
	if g.mu.state != dead {
		for _, m := range g.mu.members {
			held += memberBytes + protocolBytes(m.protocols) + len(m.assignment)
		}
	}
	g.coordinator.config.Memory.Force(held - g.mu.counted)
	g.mu.counted = held
}
