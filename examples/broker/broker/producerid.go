package broker

import (
	"context"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// producerIDs is the rest of a block of ids from the controller.
type producerIDs struct {
	mu struct {
		sync.Mutex
		next, end int64
	}
}

// initProducerID gives an idempotent producer its id. Transactions there are
// none, and their ids are refused.
func (b *Broker) initProducerID(req *kmsg.InitProducerIDRequest, reply func(kmsg.Response)) {
	resp := req.ResponseKind().(*kmsg.InitProducerIDResponse)
	resp.ProducerID, resp.ProducerEpoch = -1, -1
	if req.TransactionalID != nil {
		resp.ErrorCode = kerr.TransactionalIDAuthorizationFailed.Code
		reply(resp)
		return
	}
	refuse := func() kmsg.Response {
		resp.ErrorCode = kerr.CoordinatorNotAvailable.Code
		return resp
	}
	b.backgroundReply(reply, func(ctx context.Context) kmsg.Response {
		id, err := b.nextProducerID(ctx)
		if err != nil {
			return refuse()
		}
		resp.ProducerID, resp.ProducerEpoch = id, 0
		return resp
	}, refuse)
}

func (b *Broker) nextProducerID(ctx context.Context) (int64, error) {
	b.ids.mu.Lock()
	defer b.ids.mu.Unlock()
	if b.ids.mu.next == b.ids.mu.end {
		req := kmsg.NewPtrAllocateProducerIDsRequest()
		req.BrokerID, req.BrokerEpoch = b.config.ID, b.epoch.Load()
		answer, err := b.ask(ctx, req)
		if err != nil {
			return 0, err
		}
		block := answer.(*kmsg.AllocateProducerIDsResponse)
		b.ids.mu.next = block.ProducerIDStart
		b.ids.mu.end = block.ProducerIDStart + int64(block.ProducerIDLen)
	}
	id := b.ids.mu.next
	b.ids.mu.next++
	return id, nil
}
