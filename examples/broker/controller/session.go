package controller

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"net"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/delayedop/purgatory/examples/broker/wire"
	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// registration is one life of one broker, from its registration until it is
// fenced.
type registration struct {
	id          int32
	epoch       int64
	incarnation [16]byte // of the process
	host        string
	port        int32
	session     *session
	cancel      context.CancelFunc // ends the sending of pictures
}

func (r *registration) addr() string {
	return net.JoinHostPort(r.host, strconv.Itoa(int(r.port)))
}

// session waits for a broker to die: by silence, when it expires, or in plain
// sight, when its connection ends and cancels what waits under it.
type session struct {
	operation.DelayedOperation
	controller *Controller
	broker     *registration
}

var (
	errSilent   = errors.New("controller: no heartbeat within the session timeout")
	errGone     = errors.New("controller: the broker's connection ended")
	errReplaced = errors.New("controller: the broker registered again")
	errLeaving  = errors.New("controller: the broker asked to leave")
)

func (s *session) TryComplete() bool { return false }
func (s *session) OnExpiration()     {}

func (s *session) OnComplete() {
	switch s.Outcome() {
	case operation.Closed:
	case operation.Expired:
		s.controller.fence(s.broker, errSilent)
	default:
		s.controller.fence(s.broker, s.Cause())
	}
}

// Gone ends the sessions of the brokers that registered over the connection.
func (c *Controller) Gone(conn *wire.Conn) { c.sessions.CancelForKey(conn.ID, errGone) }

func (c *Controller) register(conn *wire.Conn, req *kmsg.BrokerRegistrationRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.BrokerRegistrationResponse)
	if len(req.Listeners) != 1 {
		resp.ErrorCode = kerr.InvalidRequest.Code
		return resp
	}
	ctx, cancel := context.WithCancel(c.ctx)
	r := &registration{
		id:          req.BrokerID,
		epoch:       newEpoch(),
		incarnation: req.IncarnationID,
		host:        req.Listeners[0].Host,
		port:        int32(req.Listeners[0].Port),
		cancel:      cancel,
	}
	r.session = &session{controller: c, broker: r}
	c.mu.Lock()
	before := c.mu.brokers[req.BrokerID]
	c.mu.Unlock()
	if before != nil && before.incarnation == r.incarnation {
		// The same process on a new connection: the controller has not seen the old
		// one end.
		c.sessions.Cancel(before.session, errReplaced)
	}
	if !c.admit(r) {
		cancel()
		c.config.Logger.Warn("a second process with a registered broker's id is refused", "broker", r.id, "address", r.addr())
		resp.ErrorCode = kerr.DuplicateBrokerRegistration.Code
		return resp
	}
	c.config.Logger.Info("broker registered", "broker", r.id, "address", r.addr())
	if _, err := c.sessions.TryCompleteElseWatch(r.session, c.config.SessionTimeout, conn.ID); err != nil {
		c.fence(r, err)
		resp.ErrorCode = kerr.BrokerNotAvailable.Code
		return resp
	}
	c.wg.Go(func() { c.sendPictures(ctx, r) })
	resp.BrokerEpoch = r.epoch
	return resp
}

// admit puts a broker into the picture, unless one of the same id lives.
func (c *Controller) admit(r *registration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.brokers[r.id] != nil {
		return false
	}
	c.mu.brokers[r.id] = r
	c.electAllLocked()
	c.changedLocked()
	return true
}

// newEpoch is drawn, not counted: brokers take pictures from whoever knows it.
func newEpoch() int64 {
	var b [8]byte
	_, _ = rand.Read(b[:])
	return int64(binary.BigEndian.Uint64(b[:]) >> 1)
}

func (c *Controller) heartbeat(req *kmsg.BrokerHeartbeatRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.BrokerHeartbeatResponse)
	c.mu.Lock()
	r := c.mu.brokers[req.BrokerID]
	c.mu.Unlock()
	switch {
	case r == nil || r.epoch != req.BrokerEpoch:
		resp.ErrorCode = kerr.StaleBrokerEpoch.Code
	case req.WantShutdown:
		c.sessions.Cancel(r.session, errLeaving)
		resp.ShouldShutdown = true
	case !c.sessions.Extend(r.session, c.config.SessionTimeout):
		resp.ErrorCode = kerr.StaleBrokerEpoch.Code
	}
	return resp
}

// fence takes a dead broker out of the picture: it leads nothing and is in
// sync with nothing, unless it is the last that was.
func (c *Controller) fence(r *registration, why error) {
	r.cancel()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.brokers[r.id] != r {
		return
	}
	delete(c.mu.brokers, r.id)
	c.config.Logger.Warn("broker fenced", "broker", r.id, "why", why)
	for _, t := range c.mu.topics {
		for _, p := range t.partitions {
			p.leave(r.id)
		}
	}
	c.electAllLocked()
	c.changedLocked()
}

// Sessions are the brokers' sessions' statistics.
func (c *Controller) Sessions() purgatory.Stats { return c.sessions.Stats() }
