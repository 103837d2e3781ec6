package broker

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/delayedop/purgatory/examples/broker/controller"
)

// describeGroups says who is in each group and what each member has. A group
// without members has offsets, or nothing: then it is what Kafka calls dead.
func (b *Broker) describeGroups(req *kmsg.DescribeGroupsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.DescribeGroupsResponse)
	for _, name := range req.Groups {
		sg := kmsg.NewDescribeGroupsResponseGroup()
		sg.Group = name
		if err := b.coordinates(name); err != nil {
			sg.ErrorCode = code(err)
		} else if !b.groups.Describe(name, &sg) {
			sg.State, sg.ProtocolType = "Dead", ""
			if b.controller.Offsets(name, func(controller.TopicPartition, controller.Offset) {}) {
				sg.State, sg.ProtocolType = "Empty", "consumer"
			}
		}
		resp.Groups = append(resp.Groups, sg)
	}
	return resp
}

// listGroups lists the groups with members that this broker coordinates.
func (b *Broker) listGroups(req *kmsg.ListGroupsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.ListGroupsResponse)
	resp.Groups = slices.DeleteFunc(b.groups.List(), func(g kmsg.ListGroupsResponseGroup) bool {
		return len(req.StatesFilter) > 0 && !slices.Contains(req.StatesFilter, g.GroupState)
	})
	return resp
}
