package controller

import (
	"maps"
	"net/netip"
	"slices"
)

// Picture is the cluster at one moment. The controller never changes a picture, it
// makes a new one.
type Picture struct {
	Version int64
	Brokers map[int32]netip.AddrPort // where they listen
	Topics  map[string]Topic
}

// Topic is the partitions of one topic, by number. A topic is never deleted.
type Topic []Partition

// Nobody leads a partition of which no replica in sync lives.
const Nobody = -1

// Partition says who has a partition, who leads it, and who is in sync.
type Partition struct {
	Replicas    []int32
	ISR         []int32
	Leader      int32
	LeaderEpoch int32 // counts leaders
	Epoch       int32 // counts changes of Leader or ISR
}

func (pic *Picture) clone() *Picture {
	next := &Picture{Version: pic.Version, Brokers: maps.Clone(pic.Brokers), Topics: make(map[string]Topic)}
	for name, t := range pic.Topics {
		next.Topics[name] = slices.Clone(t)
	}
	return next
}

// leave takes a broker out of the in-sync set. The last one stays: what it has is
// all there is, and only it may lead again.
func (p *Partition) leave(broker int32) {
	if slices.Contains(p.ISR, broker) && len(p.ISR) > 1 {
		p.ISR = slices.DeleteFunc(slices.Clone(p.ISR), func(id int32) bool { return id == broker })
		p.Epoch++
	}
}

func (pic *Picture) mayLead(p *Partition, broker int32) bool {
	_, lives := pic.Brokers[broker]
	return lives && slices.Contains(p.ISR, broker)
}

// electable is the first replica that is in sync and lives.
func (pic *Picture) electable(p *Partition) int32 {
	for _, id := range p.Replicas {
		if pic.mayLead(p, id) {
			return id
		}
	}
	return Nobody
}
