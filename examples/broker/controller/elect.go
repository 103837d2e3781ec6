package controller

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const nobody = -1

type topic struct {
	id         [16]byte
	partitions []*partition
}

// partition is who has a partition, who leads it, and who is in sync.
type partition struct {
	topic       string
	n           int
	replicas    []int32 // the first is the preferred leader
	isr         []int32
	leader      int32
	leaderEpoch int32 // counts leaders
	epoch       int32 // counts changes of leader or isr
}

// leave takes a broker out of the in-sync set. The last one stays: what it has
// is all there is, and only it may lead again.
func (p *partition) leave(broker int32) {
	if slices.Contains(p.isr, broker) && len(p.isr) > 1 {
		p.isr = slices.DeleteFunc(slices.Clone(p.isr), func(id int32) bool { return id == broker })
		p.epoch++
	}
}

// electAllLocked gives every partition the leader it should have: the one it has
// while that lives, else the first replica that is in sync and lives.
func (c *Controller) electAllLocked() {
	for _, t := range c.mu.topics {
		for _, p := range t.partitions {
			if !c.mayLeadLocked(p, p.leader) {
				c.electLocked(p)
			}
		}
	}
}

func (c *Controller) mayLeadLocked(p *partition, broker int32) bool {
	return c.mu.brokers[broker] != nil && slices.Contains(p.isr, broker)
}

func (c *Controller) electLocked(p *partition) {
	leader := int32(nobody)
	if i := slices.IndexFunc(p.replicas, func(id int32) bool { return c.mayLeadLocked(p, id) }); i >= 0 {
		leader = p.replicas[i]
	}
	if leader != p.leader {
		log := c.config.Logger.With("topic", p.topic, "partition", p.n, "before", p.leader, "insync", p.isr)
		if leader == nobody {
			log.Warn("nobody leads: no replica in sync is registered")
		} else {
			log.Info("leader elected", "leader", leader)
		}
		p.leader = leader
		p.leaderEpoch++
		p.epoch++
	}
}

// alterPartition takes a leader's word for who is in sync. Every check fences
// one kind of old news: of a former leader, of a picture since changed, of a
// replica that has died or begun a new life since it was seen in sync.
func (c *Controller) alterPartition(req *kmsg.AlterPartitionRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.AlterPartitionResponse)
	c.mu.Lock()
	defer c.mu.Unlock()
	if b := c.mu.brokers[req.BrokerID]; b == nil || b.epoch != req.BrokerEpoch {
		resp.ErrorCode = kerr.StaleBrokerEpoch.Code
		return resp
	}
	byID := make(map[[16]byte]*topic, len(c.mu.topics))
	for _, t := range c.mu.topics {
		byID[t.id] = t
	}
	for _, rt := range req.Topics {
		st := kmsg.NewAlterPartitionResponseTopic()
		st.TopidID = rt.TopicID // the field is spelled so
		for _, rp := range rt.Partitions {
			sp := kmsg.NewAlterPartitionResponseTopicPartition()
			sp.Partition = rp.Partition
			t := byID[rt.TopicID]
			if t == nil || int(rp.Partition) >= len(t.partitions) || rp.Partition < 0 {
				sp.ErrorCode = kerr.UnknownTopicOrPartition.Code
			} else {
				p := t.partitions[rp.Partition]
				if err := c.alterLocked(p, req.BrokerID, rp); err != nil {
					sp.ErrorCode = err.Code
				}
				sp.LeaderID, sp.LeaderEpoch, sp.ISR, sp.PartitionEpoch = p.leader, p.leaderEpoch, p.isr, p.epoch
			}
			st.Partitions = append(st.Partitions, sp)
		}
		resp.Topics = append(resp.Topics, st)
	}
	return resp
}

func (c *Controller) alterLocked(p *partition, from int32, req kmsg.AlterPartitionRequestTopicPartition) *kerr.Error {
	var isr []int32
	for _, member := range req.NewEpochISR {
		b := c.mu.brokers[member.BrokerID]
		// Of a member that stays, the leader may not know the epoch.
		stays := member.BrokerEpoch == -1 && slices.Contains(p.isr, member.BrokerID)
		joins := b != nil && b.epoch == member.BrokerEpoch && slices.Contains(p.replicas, member.BrokerID)
		if !stays && !joins {
			return kerr.IneligibleReplica
		}
		isr = append(isr, member.BrokerID)
	}
	switch {
	case p.leader != from || p.leaderEpoch != req.LeaderEpoch:
		return kerr.FencedLeaderEpoch
	case p.epoch != req.PartitionEpoch:
		return kerr.InvalidUpdateVersion
	case !slices.Contains(isr, from):
		return kerr.InvalidRequest
	}
	c.config.Logger.Info("in-sync set changed", "topic", p.topic, "partition", p.n, "leader", p.leader, "insync", isr, "before", p.isr)
	p.isr = isr
	p.epoch++
	c.changedLocked()
	// The preferred leader is back in sync: let it lead, or the leaders would
	// gather where nothing has been restarted yet.
	if c.mayLeadLocked(p, p.replicas[0]) {
		c.electLocked(p)
	}
	return nil
}
