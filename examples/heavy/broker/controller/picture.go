package controller

import (
	"hash/fnv"
	"maps"
	"net"
	"slices"
	"strconv"
)

// Picture is the cluster at one moment. The controller never changes a picture, it
// makes a new one.
type Picture struct {
	Version int64
	Brokers map[int32]Endpoint
	Topics  map[string]*Topic
	ByID    map[[16]byte]*Topic
}

// Endpoint is where a broker listens.
type Endpoint struct {
	Host string
	Port int32
}

// Addr is the endpoint as net.Dial wants it.
func (e Endpoint) Addr() string { return net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port))) }

// Topic is one topic. Two of one name, one after the other, have different ids.
type Topic struct {
	Name       string
	ID         [16]byte
	Partitions []Partition
}

// Nobody leads a partition of which no replica in sync lives.
const Nobody = -1

// Partition says who has a partition, who leads it, and who is in sync.
type Partition struct {
	Replicas    []int32 // the first is the preferred leader
	ISR         []int32
	Leader      int32
	LeaderEpoch int32 // counts leaders
	Epoch       int32 // counts changes of Leader or ISR
}

func (pic *Picture) clone() *Picture {
	next := &Picture{Version: pic.Version, Brokers: make(map[int32]Endpoint), Topics: make(map[string]*Topic), ByID: make(map[[16]byte]*Topic)}
	maps.Copy(next.Brokers, pic.Brokers)
	for _, t := range pic.Topics {
		next.add(&Topic{Name: t.Name, ID: t.ID, Partitions: slices.Clone(t.Partitions)})
	}
	return next
}

func (pic *Picture) add(t *Topic) { pic.Topics[t.Name], pic.ByID[t.ID] = t, t }

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

// Coordinator is the broker that coordinates a group: of those that live, the one
// with the highest hash of itself and the group. When a broker goes or comes, only
// the groups that it had, or will have, move.
func (pic *Picture) Coordinator(group string) int32 {
	best, highest := int32(Nobody), uint64(0)
	for id := range pic.Brokers {
		h := fnv.New64a()
		_, _ = h.Write([]byte{byte(id), byte(id >> 8)})
		_, _ = h.Write([]byte(group))
		if sum := h.Sum64(); best == Nobody || sum > highest || sum == highest && id > best {
			best, highest = id, sum
		}
	}
	return best
}
