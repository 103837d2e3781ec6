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
		c.config.Logger.Warn("topic refused: the table of replicas is full", "topic", req.Topic, "replicas", c.mu.replicas, "maximum", maxReplicas)
		return nil, kerr.PolicyViolation
	}
	t := &topic{}
	_, _ = rand.Read(t.id[:])
	for i := range partitions {
		p := &partition{topic: req.Topic, n: i, leader: nobody, leaderEpoch: -1}
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

// deleteTopics takes topics out of the picture. A topic of the same name that comes
// later has another id.
func (c *Controller) deleteTopics(req *kmsg.DeleteTopicsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.DeleteTopicsResponse)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, rt := range req.Topics {
		st := kmsg.NewDeleteTopicsResponseTopic()
		st.Topic, st.TopicID = rt.Topic, rt.TopicID
		name, found := c.nameLocked(rt)
		switch {
		case found:
			t := c.mu.topics[name]
			st.Topic, st.TopicID = &name, t.id
			delete(c.mu.topics, name)
			c.mu.replicas -= len(t.partitions) * len(t.partitions[0].replicas)
			c.config.Logger.Info("topic deleted", "topic", name)
		case rt.Topic != nil:
			st.ErrorCode = kerr.UnknownTopicOrPartition.Code
		default:
			st.ErrorCode = kerr.UnknownTopicID.Code
		}
		resp.Topics = append(resp.Topics, st)
	}
	c.changedLocked()
	return resp
}

// nameLocked finds a topic that is named, or known by its id.
func (c *Controller) nameLocked(rt kmsg.DeleteTopicsRequestTopic) (name string, found bool) {
	if rt.Topic != nil {
		_, found = c.mu.topics[*rt.Topic]
		return *rt.Topic, found
	}
	for name, t := range c.mu.topics {
		if t.id == rt.TopicID {
			return name, true
		}
	}
	return "", false
}
