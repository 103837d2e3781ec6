package main

import (
	"fmt"
	"slices"
	"sync"
)

// topicPartition is what produces and fetches wait for: the watch key of both purgatories.
type topicPartition struct {
	Topic     string
	Partition int
}

func (tp topicPartition) String() string { return fmt.Sprintf("%s-%d", tp.Topic, tp.Partition) }

// assignment is who leads a partition, since which epoch, and who is in sync.
type assignment struct {
	leader int
	epoch  int
	insync []int
}

// controller is the one place where leadership and in-sync sets are decided, what Kafka keeps in its metadata log. Only the
// leader of the current epoch can change an in-sync set, so a leader that has been replaced cannot shrink its set and
// acknowledge what its successor lacks. It is safe for concurrent use, and calls nobody: its lock is taken last.
type controller struct {
	mu struct {
		sync.Mutex
		assignments map[topicPartition]assignment
	}
}

// newController spreads the leaders of the topic's partitions over brokers 0 to replicas-1, all in sync.
func newController(partitions, replicas int) *controller {
	c := new(controller)
	c.mu.assignments = make(map[topicPartition]assignment, partitions)
	for i := range partitions {
		everyone := make([]int, replicas)
		for id := range everyone {
			everyone[id] = id
		}
		c.mu.assignments[topicPartition{topic, i}] = assignment{leader: i % replicas, insync: everyone}
	}
	return c
}

// assigned returns who leads a partition now.
func (c *controller) assigned(tp topicPartition) assignment {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.assignments[tp]
}

// setInsync changes a partition's in-sync set on behalf of the leader of an epoch; false when that epoch is over.
func (c *controller) setInsync(tp topicPartition, epoch int, insync []int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.mu.assignments[tp]
	if a.epoch != epoch {
		return false
	}
	a.insync = insync
	c.mu.assignments[tp] = a
	return true
}

// elect makes an in-sync replica the leader, in a new epoch, and returns the assignment that results.
func (c *controller) elect(tp topicPartition, leader int) (assignment, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.mu.assignments[tp]
	if !slices.Contains(a.insync, leader) {
		return a, fmt.Errorf("elect broker %d for %v: only %v are in sync", leader, tp, a.insync)
	}
	a.leader, a.epoch = leader, a.epoch+1
	c.mu.assignments[tp] = a
	return a, nil
}

// ledPartitions lists the partitions that each broker leads, as producers ask for it.
func (c *controller) ledPartitions() map[int][]topicPartition {
	c.mu.Lock()
	defer c.mu.Unlock()
	led := make(map[int][]topicPartition)
	for tp, a := range c.mu.assignments {
		led[a.leader] = append(led[a.leader], tp)
	}
	for _, partitions := range led {
		slices.SortFunc(partitions, func(a, b topicPartition) int { return a.Partition - b.Partition })
	}
	return led
}
