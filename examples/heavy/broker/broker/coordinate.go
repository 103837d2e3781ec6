package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/delayedop/purgatory/examples/heavy/broker/controller"
)

// coordinates says whether this broker is a group's coordinator.
func (b *Broker) coordinates(group string) *kerr.Error {
	if b.current.Load().Coordinator(group) != b.config.ID {
		return kerr.NotCoordinator
	}
	return nil
}

// findCoordinator says which broker to ask for a group.
func (b *Broker) findCoordinator(req *kmsg.FindCoordinatorRequest) kmsg.Response {
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
	pic := b.current.Load()
	leader := pic.Coordinator(key)
	switch {
	case kind != 0: // a transaction's: there are none
		sc.ErrorCode = kerr.TransactionalIDAuthorizationFailed.Code
	case leader == controller.Nobody:
		sc.ErrorCode = kerr.CoordinatorNotAvailable.Code
	default:
		sc.NodeID, sc.Host, sc.Port = leader, pic.Brokers[leader].Host, pic.Brokers[leader].Port
	}
	return sc
}

// initProducerID gives an idempotent producer its id. Transactions there are
// none, and their ids are refused.
func (b *Broker) initProducerID(req *kmsg.InitProducerIDRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.InitProducerIDResponse)
	if req.TransactionalID != nil {
		resp.ErrorCode = kerr.TransactionalIDAuthorizationFailed.Code
		resp.ProducerID, resp.ProducerEpoch = -1, -1
		return resp
	}
	resp.ProducerID, resp.ProducerEpoch = b.controller.NextProducerID(), 0
	return resp
}

// refuseConsumerGroup tells a member that wants the protocol of KIP-848 that there is
// none. A client that finds the request unlisted may wait for it without a word.
func refuseConsumerGroup(req *kmsg.ConsumerGroupHeartbeatRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.ConsumerGroupHeartbeatResponse)
	resp.ErrorCode = kerr.UnsupportedVersion.Code
	resp.ErrorMessage = kmsg.StringPtr("this broker speaks the classic group protocol only")
	return resp
}
