package group

import (
	"bytes"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// protocolsEqual says whether a member asks for what it asked for before.
func protocolsEqual(a, b []kmsg.JoinGroupRequestProtocol) bool {
	return slices.EqualFunc(a, b, func(x, y kmsg.JoinGroupRequestProtocol) bool {
		return x.Name == y.Name && bytes.Equal(x.Metadata, y.Metadata)
	})
}

// supportsLocked says whether all members speak a protocol.
func (g *group) supportsLocked(name string) bool {
	for _, m := range g.membersLocked() {
		if m.metadata(name) == nil {
			return false
		}
	}
	return true
}

// consistentLocked says whether a member with these protocols would leave the
// group one that all speak.
func (g *group) consistentLocked(protocolType string, protocols []kmsg.JoinGroupRequestProtocol) bool {
	if len(g.membersLocked()) == 0 {
		return true
	}
	return g.mu.protocolType == protocolType && slices.ContainsFunc(protocols, func(p kmsg.JoinGroupRequestProtocol) bool {
		return g.supportsLocked(p.Name)
	})
}

// commonProtocolLocked is the one that most members name first, of those that
// all speak.
func (g *group) commonProtocolLocked() string {
	votes := make(map[string]int)
	best := ""
	for _, m := range g.membersLocked() {
		for _, p := range m.protocols {
			if g.supportsLocked(p.Name) {
				votes[p.Name]++
				if votes[p.Name] > votes[best] {
					best = p.Name
				}
				break
			}
		}
	}
	return best
}

// metadata is what a member says of itself in a protocol; nil: it does not
// speak it.
func (m *member) metadata(protocol string) []byte {
	for _, p := range m.protocols {
		if p.Name == protocol {
			return append([]byte{}, p.Metadata...)
		}
	}
	return nil
}
