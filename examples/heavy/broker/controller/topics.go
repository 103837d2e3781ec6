package controller

import (
	"maps"
	"regexp"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
)

// What a topic gets that does not say, and how much there may be of it.
const (
	Default       = -1
	partitions    = 3
	replication   = 3
	maxPartitions = 1000
)

var validName = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)

// Create makes a topic; dry, it says only what would come of it.
func (c *Controller) Create(name string, count int32, copies int16, dry bool) (Topic, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	alive := slices.Sorted(maps.Keys(c.mu.brokers))
	if count == Default {
		count = partitions
	}
	if copies == Default {
		copies = min(replication, int16(len(alive)))
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
	}
	t := make(Topic, count)
	for i := range t {
		p := &t[i]
		for r := range int(copies) {
			p.Replicas = append(p.Replicas, alive[(c.mu.placed+i+r)%len(alive)])
		}
		p.ISR, p.Leader = p.Replicas, p.Replicas[0]
	}
	if !dry {
		c.mu.placed += int(count)
		next := c.mu.now.clone()
		next.Topics[name] = t
		c.publishLocked(next)
	}
	return t, nil
}

// Alter takes a leader's word for who is in sync, if it is news: of the leader's
// present session, of its present leadership, of the set as it is, and with nobody
// new in it who has died. It returns the partition as it is then.
func (c *Controller) Alter(s *Session, tp TopicPartition, leaderEpoch, epoch int32, isr []int32) (Partition, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.currentLocked(s) {
		return Partition{}, kerr.StaleBrokerEpoch
	}
	next := c.mu.now.clone()
	p := &next.Topics[tp.Topic][tp.N]
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
	c.log.Info("in-sync set changed", "partition", tp, "leader", p.Leader, "insync", isr, "before", p.ISR)
	p.ISR = slices.Clone(isr)
	p.Epoch++
	c.publishLocked(next)
	return *p, nil
}
