package broker

import (
	"context"
	"hash/fnv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/delayedop/purgatory/examples/broker/group"
	"github.com/delayedop/purgatory/examples/broker/wire"
)

// A group belongs to a partition of the offsets topic, and is coordinated by
// that partition's leader: it has the group's offsets at hand.

// offsetsPartition is a group's partition; -1 while the topic does not exist.
func (b *Broker) offsetsPartition(group string) int32 {
	t := b.current.Load().topics[offsetsTopic]
	if t == nil {
		return -1
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(group))
	return int32(h.Sum32() % uint32(len(t.partitions)))
}

// coordinates says whether this broker is a group's coordinator, ready to be.
func (b *Broker) coordinates(group string) error {
	if group == "" {
		return kerr.InvalidGroupID
	}
	if !b.offsets.has(b.offsetsPartition(group)) {
		return kerr.NotCoordinator
	}
	return nil
}

// coordinate begins to coordinate the groups of a partition that this broker
// leads now: it reads their offsets from the log.
func (b *Broker) coordinate(p *partition) {
	p.mu.Lock()
	batches := p.mu.log.Batches()
	p.mu.Unlock()
	b.offsets.load(p.n, batches)
}

// resign stops coordinating a partition's groups.
func (b *Broker) resign(n int32) {
	b.offsets.drop(n)
	b.groups.Resign(func(group string) bool { return b.offsetsPartition(group) == n })
}

func (b *Broker) joinGroup(c *wire.Conn, req *kmsg.JoinGroupRequest, reply func(kmsg.Response)) {
	if err := b.coordinates(req.Group); err != nil {
		resp := req.ResponseKind().(*kmsg.JoinGroupResponse)
		resp.ErrorCode, resp.Generation, resp.Protocol = code(err), -1, kmsg.StringPtr("")
		reply(resp)
		return
	}
	b.groups.Join(group.Client{Conn: c.ID, Open: c.Open}, req, reply)
}

func (b *Broker) syncGroup(c *wire.Conn, req *kmsg.SyncGroupRequest, reply func(kmsg.Response)) {
	if err := b.coordinates(req.Group); err != nil {
		resp := req.ResponseKind().(*kmsg.SyncGroupResponse)
		resp.ErrorCode, resp.MemberAssignment = code(err), []byte{}
		reply(resp)
		return
	}
	b.groups.Sync(group.Client{Conn: c.ID, Open: c.Open}, req, reply)
}

func (b *Broker) groupHeartbeat(req *kmsg.HeartbeatRequest) kmsg.Response {
	if err := b.coordinates(req.Group); err != nil {
		resp := req.ResponseKind().(*kmsg.HeartbeatResponse)
		resp.ErrorCode = code(err)
		return resp
	}
	return b.groups.Heartbeat(req)
}

func (b *Broker) leaveGroup(req *kmsg.LeaveGroupRequest) kmsg.Response {
	if err := b.coordinates(req.Group); err != nil {
		resp := req.ResponseKind().(*kmsg.LeaveGroupResponse)
		resp.ErrorCode = code(err)
		return resp
	}
	return b.groups.Leave(req)
}

// findCoordinator says which broker to ask for a group. The first who asks has
// the offsets topic created.
func (b *Broker) findCoordinator(req *kmsg.FindCoordinatorRequest, reply func(kmsg.Response)) {
	if b.knows(offsetsTopic) || req.CoordinatorType != 0 {
		reply(b.coordinators(req))
		return
	}
	b.backgroundReply(reply, func(ctx context.Context) kmsg.Response {
		b.createMissing(ctx, []string{offsetsTopic})
		return b.coordinators(req)
	}, func() kmsg.Response { return b.coordinators(req) })
}

func (b *Broker) coordinators(req *kmsg.FindCoordinatorRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.FindCoordinatorResponse)
	if req.Version < 4 {
		one := b.coordinator(req.CoordinatorKey, req.CoordinatorType)
		resp.NodeID, resp.Host, resp.Port, resp.ErrorCode = one.NodeID, one.Host, one.Port, one.ErrorCode
		return resp
	}
	for _, key := range req.CoordinatorKeys {
		resp.Coordinators = append(resp.Coordinators, b.coordinator(key, req.CoordinatorType))
	}
	return resp
}

func (b *Broker) coordinator(key string, kind int8) kmsg.FindCoordinatorResponseCoordinator {
	sc := kmsg.NewFindCoordinatorResponseCoordinator()
	sc.Key, sc.NodeID, sc.Port = key, -1, -1
	pic, n := b.current.Load(), b.offsetsPartition(key)
	switch {
	case kind != 0: // a transaction's: there are none
		sc.ErrorCode = kerr.TransactionalIDAuthorizationFailed.Code
		return sc
	case n < 0:
		sc.ErrorCode = kerr.CoordinatorNotAvailable.Code
		return sc
	}
	leader := pic.topics[offsetsTopic].partitions[n].Leader
	at, alive := pic.brokers[leader]
	if !alive {
		sc.ErrorCode = kerr.CoordinatorNotAvailable.Code
		return sc
	}
	sc.NodeID, sc.Host, sc.Port = leader, at.host, at.port
	return sc
}
