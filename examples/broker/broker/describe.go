package broker

import (
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
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
			if len(b.offsets.topics(b.offsetsPartition(name), name)) > 0 {
				sg.State, sg.ProtocolType = "Empty", "consumer"
			}
		}
		resp.Groups = append(resp.Groups, sg)
	}
	return resp
}

// listGroups lists the groups that this broker coordinates, also those of which
// only the offsets are left.
func (b *Broker) listGroups(req *kmsg.ListGroupsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.ListGroupsResponse)
	resp.Groups = b.groups.List()
	for _, name := range b.offsets.groups() {
		if !slices.ContainsFunc(resp.Groups, func(g kmsg.ListGroupsResponseGroup) bool { return g.Group == name }) {
			sg := kmsg.NewListGroupsResponseGroup()
			sg.Group, sg.ProtocolType, sg.GroupState = name, "consumer", "Empty"
			resp.Groups = append(resp.Groups, sg)
		}
	}
	resp.Groups = slices.DeleteFunc(resp.Groups, func(g kmsg.ListGroupsResponseGroup) bool {
		return len(req.StatesFilter) > 0 && !slices.Contains(req.StatesFilter, g.GroupState)
	})
	return resp
}

const (
	resourceTopic = 2
	sourceDefault = 5
)

// describeConfigs says how topics are kept. None can be configured by itself: it is
// what all are given.
func (b *Broker) describeConfigs(req *kmsg.DescribeConfigsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.DescribeConfigsResponse)
	for _, rr := range req.Resources {
		sr := kmsg.NewDescribeConfigsResponseResource()
		sr.ResourceType, sr.ResourceName = rr.ResourceType, rr.ResourceName
		sr.Configs = []kmsg.DescribeConfigsResponseResourceConfig{}
		switch t := b.current.Load().topics[rr.ResourceName]; {
		case rr.ResourceType != resourceTopic:
			sr.ErrorCode = kerr.InvalidRequest.Code
		case t == nil:
			sr.ErrorCode = kerr.UnknownTopicOrPartition.Code
		default:
			for _, c := range b.topicConfigs(t) {
				if rr.ConfigNames == nil || slices.Contains(rr.ConfigNames, c.Name) {
					sr.Configs = append(sr.Configs, c)
				}
			}
		}
		resp.Resources = append(resp.Resources, sr)
	}
	return resp
}

func (b *Broker) topicConfigs(t *topic) (all []kmsg.DescribeConfigsResponseResourceConfig) {
	const typeInt, typeString, typeLong, typeList = 3, 2, 5, 7
	add := func(name, value string, kind kmsg.ConfigType) {
		c := kmsg.NewDescribeConfigsResponseResourceConfig()
		c.Name, c.Value, c.ConfigType = name, &value, kind
		c.ReadOnly, c.IsDefault, c.Source = true, true, sourceDefault
		all = append(all, c)
	}
	retention := strconv.Itoa(b.config.RetentionBytes)
	if t.name == offsetsTopic {
		retention = "-1"
	}
	add("cleanup.policy", "delete", typeList)
	add("compression.type", "producer", typeString)
	add("max.message.bytes", strconv.Itoa(b.config.MaxBatchBytes), typeInt)
	add("min.insync.replicas", strconv.Itoa(min(b.config.MinInsyncReplicas, len(t.partitions[0].Replicas))), typeInt)
	add("retention.bytes", retention, typeLong)
	add("retention.ms", "-1", typeLong)
	return all
}
