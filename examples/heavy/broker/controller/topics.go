package controller

import (
	"crypto/rand"
	"maps"
	"regexp"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
)

// What a topic gets that does not say, and how much there may be of it all.
const (
	Default       = -1
	partitions    = 3
	replication   = 3
	maxPartitions = 1000 // of a topic
	maxReplicas   = 6000 // of all topics: each picture has them all
)

var validName = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)

// Create makes a topic; dry, it says only what would come of it.
func (c *Controller) Create(name string, count int32, copies int16, dry bool) (*Topic, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	alive := slices.Sorted(maps.Keys(c.mu.brokers))
	if count == Default {
		count = partitions
	}
	if copies == Default {
		copies = min(replication, int16(len(alive)))
	}
	replicas := int(count) * int(copies)
	for _, t := range c.mu.now.Topics {
		replicas += len(t.Partitions) * len(t.Partitions[0].Replicas)
	}
	switch {
	case !validName.MatchString(name) || name == "." || name == "..":
		return nil, kerr.InvalidTopicException
	case c.mu.now.Topics[name] != nil:
		return nil, kerr.TopicAlreadyExists
	case count < 1 || count > maxPartitions:
		return nil, kerr.InvalidPartitions
	case copies < 1 || int(copies) > len(alive):
		return nil, kerr.InvalidReplicationFactor
	case replicas > maxReplicas:
		c.log.Warn("topic refused: there would be too many replicas", "topic", name, "replicas", replicas, "maximum", maxReplicas)
		return nil, kerr.PolicyViolation
	}
	t := &Topic{Name: name, Partitions: make([]Partition, count)}
	_, _ = rand.Read(t.ID[:])
	for i := range t.Partitions {
		p := &t.Partitions[i]
		for r := range int(copies) {
			p.Replicas = append(p.Replicas, alive[(c.mu.placed+i+r)%len(alive)])
		}
		p.ISR, p.Leader = p.Replicas, p.Replicas[0]
	}
	if !dry {
		c.mu.placed += int(count)
		next := c.mu.now.clone()
		next.add(t)
		c.publishLocked(next)
	}
	return t, nil
}

// Alter takes a leader's word for who is in sync, if it is news: of the leader's
// present session, of its present leadership, of the set as it is, and with nobody
// new in it who has died. It returns the partition as it is then.
func (c *Controller) Alter(s *Session, topic [16]byte, n int, leaderEpoch, epoch int32, isr []int32) (Partition, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.mu.now.ByID[topic]
	if !c.currentLocked(s) || t == nil || n >= len(t.Partitions) {
		return Partition{}, kerr.StaleBrokerEpoch
	}
	next := c.mu.now.clone()
	p := &next.ByID[topic].Partitions[n]
	switch {
	case p.Leader != s.id || p.LeaderEpoch != leaderEpoch:
		return Partition{}, kerr.FencedLeaderEpoch
	case p.Epoch != epoch:
		return Partition{}, kerr.InvalidUpdateVersion
	case !slices.Contains(isr, s.id):
		return Partition{}, kerr.InvalidRequest
	}
	for _, id := range isr {
		if c.mu.brokers[id] == nil && !slices.Contains(p.ISR, id) || !slices.Contains(p.Replicas, id) {
			return Partition{}, kerr.IneligibleReplica
		}
	}
	c.log.Info("in-sync set changed", "topic", t.Name, "partition", n, "leader", p.Leader, "insync", isr, "before", p.ISR)
	p.ISR = slices.Clone(isr)
	p.Epoch++
	// The preferred leader may be back: it leads again, or the leaders would gather
	// where nothing has been restarted yet.
	if next.mayLead(p, p.Replicas[0]) {
		c.elect(next, p, t.Name, n)
	}
	c.publishLocked(next)
	return *p, nil
}
