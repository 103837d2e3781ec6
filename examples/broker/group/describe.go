package group

import (
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// String is what the protocol calls a state.
func (s state) String() string {
	return [...]string{empty: "Empty", joining: "PreparingRebalance", syncing: "CompletingRebalance", stable: "Stable", dead: "Dead"}[s]
}

// Describe says who is in a group; false when there is none of that name.
func (c *Coordinator) Describe(name string, resp *kmsg.DescribeGroupsResponseGroup) bool {
	g := c.group(name, false)
	if g == nil {
		return false
	}
	g.lock()
	defer g.unlock()
	if g.mu.state == dead {
		return false
	}
	resp.State, resp.ProtocolType = g.mu.state.String(), g.mu.protocolType
	if g.mu.state == stable {
		resp.Protocol = g.mu.protocol
	}
	for _, m := range g.membersLocked() {
		sm := kmsg.NewDescribeGroupsResponseGroupMember()
		sm.MemberID, sm.InstanceID = m.id, m.instance
		sm.ClientID, sm.ClientHost = m.id, "127.0.0.1" // the server listens on loopback only
		sm.ProtocolMetadata, sm.MemberAssignment = []byte{}, []byte{}
		if g.mu.state == stable {
			sm.ProtocolMetadata = m.metadata(g.mu.protocol)
			sm.MemberAssignment = append(sm.MemberAssignment, m.assignment...)
		}
		resp.Members = append(resp.Members, sm)
	}
	return true
}

// List lists the groups that have members.
func (c *Coordinator) List() []kmsg.ListGroupsResponseGroup {
	c.mu.Lock()
	groups := slices.Collect(maps.Values(c.mu.groups))
	c.mu.Unlock()
	list := []kmsg.ListGroupsResponseGroup{}
	for _, g := range groups {
		g.lock()
		sg := kmsg.NewListGroupsResponseGroup()
		sg.Group, sg.ProtocolType, sg.GroupState = g.name, g.mu.protocolType, g.mu.state.String()
		if g.mu.state != dead {
			list = append(list, sg)
		}
		g.unlock()
	}
	return list
}
