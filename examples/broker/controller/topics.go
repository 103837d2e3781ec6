package controller

import (
	"crypto/rand"
	"maps"
	"regexp"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// What a topic gets that does not say, and how much there may be of it all.
const (
	defaultPartitions  = 3
	defaultReplication = 3
	maxPartitions      = 1000 // of a topic
	maxReplicas        = 6000 // of all topics: each picture has them all
)

var validName = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)

func (c *Controller) createTopics(req *kmsg.CreateTopicsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.CreateTopicsResponse)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, rt := range req.Topics {
		st := kmsg.NewCreateTopicsResponseTopic()
		st.Topic = rt.Topic
		t, err := c.createLocked(rt, req.ValidateOnly)
		if err != nil {
			st.ErrorCode = err.Code
			st.ErrorMessage = kmsg.StringPtr(err.Description)
		} else {
			st.TopicID = t.id
			st.NumPartitions = int32(len(t.partitions))
			st.ReplicationFactor = int16(len(t.partitions[0].replicas))
			st.Configs = []kmsg.CreateTopicsResponseTopicConfig{}
		}
		resp.Topics = append(resp.Topics, st)
	}
	c.changedLocked()
	return resp
}

func (c *Controller) createLocked(req kmsg.CreateTopicsRequestTopic, validateOnly bool) (*topic, *kerr.Error) {
	alive := slices.Sorted(maps.Keys(c.mu.brokers))
	partitions, replication := int(req.NumPartitions), int(req.ReplicationFactor)
	if partitions == -1 {
		partitions = defaultPartitions
	}
	if replication == -1 {
		replication = min(defaultReplication, len(alive))
	}
	switch {
	case !validName.MatchString(req.Topic) || req.Topic == "." || req.Topic == "..":
		return nil, kerr.InvalidTopicException
	case c.mu.topics[req.Topic] != nil:
		return nil, kerr.TopicAlreadyExists
	case len(req.ReplicaAssignment) > 0:
		return nil, kerr.InvalidReplicaAssignment
	case len(req.Configs) > 0:
		return nil, kerr.InvalidConfig
	case partitions < 1 || partitions > maxPartitions:
		return nil, kerr.InvalidPartitions
	case replication < 1 || replication > len(alive):
		return nil, kerr.InvalidReplicationFactor
	case c.mu.replicas+partitions*replication > maxReplicas:
		return nil, kerr.PolicyViolation
	}
	t := &topic{}
	_, _ = rand.Read(t.id[:])
	for i := range partitions {
		p := &partition{leader: nobody, leaderEpoch: -1}
		for r := range replication {
			// A topic begins where the one before it ended.
			p.replicas = append(p.replicas, alive[(c.mu.partitions+i+r)%len(alive)])
		}
		p.isr = p.replicas
		c.electLocked(p)
		t.partitions = append(t.partitions, p)
	}
	if !validateOnly {
		c.mu.topics[req.Topic] = t
		c.mu.partitions += partitions
		c.mu.replicas += partitions * replication
	}
	return t, nil
}
