package broker

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/delayedop/purgatory/examples/heavy/broker/controller"
	"github.com/delayedop/purgatory/examples/heavy/broker/wire"
	"github.com/delayedop/purgatory/operation"
)

// createTopics has the controller make topics and waits until this broker has heard
// of them. One that it has not heard of within the timeout exists and is late, which
// the protocol calls timed out.
func (b *Broker) createTopics(c *wire.Conn, req *kmsg.CreateTopicsRequest, reply func(kmsg.Response)) {
	resp := req.ResponseKind().(*kmsg.CreateTopicsResponse)
	for _, rt := range req.Topics {
		st := kmsg.NewCreateTopicsResponseTopic()
		st.Topic = rt.Topic
		t, err := b.createTopic(rt, req.ValidateOnly)
		if err != nil {
			st.ErrorCode, st.ErrorMessage = code(err), kmsg.StringPtr(err.Error())
		} else {
			st.TopicID, st.NumPartitions = t.ID, int32(len(t.Partitions))
			st.ReplicationFactor = int16(len(t.Partitions[0].Replicas))
			st.Configs = []kmsg.CreateTopicsResponseTopicConfig{}
		}
		resp.Topics = append(resp.Topics, st)
	}
	b.whenApplied(c, b.patience(req.TimeoutMillis), func(late bool) {
		for i := range resp.Topics {
			if st := &resp.Topics[i]; late && st.ErrorCode == 0 {
				st.ErrorCode = kerr.RequestTimedOut.Code
			}
		}
		reply(resp)
	})
}

func (b *Broker) createTopic(rt kmsg.CreateTopicsRequestTopic, dry bool) (*controller.Topic, error) {
	switch {
	case len(rt.ReplicaAssignment) > 0:
		return nil, kerr.InvalidReplicaAssignment
	case len(rt.Configs) > 0:
		return nil, kerr.InvalidConfig
	}
	return b.controller.Create(rt.Topic, rt.NumPartitions, rt.ReplicationFactor, dry)
}

// pictureWait waits until this broker is what a picture says.
type pictureWait struct {
	operation.DelayedOperation
	broker  *Broker
	version int64
	then    func(late bool)
}

// TryComplete says whether the broker has come so far.
func (w *pictureWait) TryComplete() bool { return w.broker.current.Load().Version >= w.version }

// OnComplete goes on with the request.
func (w *pictureWait) OnComplete() { w.then(w.Outcome() != operation.Satisfied) }

// OnExpiration does nothing: OnComplete has answered.
func (w *pictureWait) OnExpiration() {}

// whenApplied calls then, once, when this broker is what the controller's picture of
// this moment says; late, when it takes too long.
func (b *Broker) whenApplied(c *wire.Conn, timeout time.Duration, then func(late bool)) {
	w := &pictureWait{broker: b, version: b.controller.Picture().Version, then: then}
	here := position{Key: waitKey{event: applied}, Position: w.version}
	if _, err := b.pictures.TryCompleteElseWatchAt(w, timeout, goneKey(c), here); err != nil {
		then(true) // closed: never accepted, so never completed
	}
}
