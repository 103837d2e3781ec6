package broker

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/delayedop/purgatory/examples/broker/wire"
)

const reconnect = 100 * time.Millisecond

// stayRegistered registers the broker and sends heartbeats, again and again:
// after the controller has closed the session, or has gone and come back.
func (b *Broker) stayRegistered(ctx context.Context) {
	for ctx.Err() == nil && !b.leaving.Load() {
		client, err := wire.Dial(ctx, b.config.Controller, "broker")
		if err == nil {
			err = b.register(ctx, client)
		}
		if ctx.Err() == nil {
			b.noteRegistration(err)
		}
		for err == nil && b.pause(ctx, b.config.HeartbeatInterval) {
			if err = b.heartbeat(ctx, client, false); err != nil && ctx.Err() == nil {
				b.config.Logger.Warn("registration lost", "why", err)
			}
		}
		b.asking.Store(nil)
		if client != nil {
			client.Close()
		}
		b.pause(ctx, reconnect)
	}
}

func (b *Broker) register(ctx context.Context, client *wire.Client) error {
	addr := b.server.Addr()
	listener := kmsg.NewBrokerRegistrationRequestListener()
	listener.Host, listener.Port = addr.IP.String(), uint16(addr.Port)
	req := kmsg.NewPtrBrokerRegistrationRequest()
	req.Version = 3
	req.BrokerID = b.config.ID
	req.IncarnationID = b.self
	req.Listeners = append(req.Listeners, listener)
	// The first picture of this registration may be here before the answer
	// that says its epoch: it waits.
	b.applying.Lock()
	defer b.applying.Unlock()
	resp, err := b.tell(ctx, client, req)
	if err != nil {
		return err
	}
	answer := resp.(*kmsg.BrokerRegistrationResponse)
	if err := kerr.ErrorForCode(answer.ErrorCode); err != nil {
		return err
	}
	b.epoch.Store(answer.BrokerEpoch)
	b.asking.Store(client)
	return nil
}

// noteRegistration logs what changed. A broker that is refused because another
// process lives under its id gives up what it leads: its clients are to ask the
// other one.
func (b *Broker) noteRegistration(err error) {
	before := b.refused.Swap(nil)
	if err == nil {
		b.config.Logger.Info("registered", "controller", b.config.Controller)
		return
	}
	b.refused.Store(&err)
	if before != nil && (*before).Error() == err.Error() {
		return
	}
	b.config.Logger.Warn("not registered, trying again", "controller", b.config.Controller, "why", err)
	if errors.Is(err, kerr.DuplicateBrokerRegistration) {
		b.standDown()
	}
}

// standDown ends every leadership of this broker.
func (b *Broker) standDown() {
	b.applying.Lock()
	defer b.applying.Unlock()
	for _, p := range b.partitionsCopy() {
		if p.abdicate() {
			b.dismiss(p)
			if p.name == offsetsTopic {
				b.resign(p.n)
			}
		}
	}
}

func (b *Broker) heartbeat(ctx context.Context, client *wire.Client, leaving bool) error {
	req := kmsg.NewPtrBrokerHeartbeatRequest()
	req.BrokerID, req.BrokerEpoch, req.WantShutdown = b.config.ID, b.epoch.Load(), leaving
	resp, err := b.tell(ctx, client, req)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(resp.(*kmsg.BrokerHeartbeatResponse).ErrorCode)
}

// leave asks the controller to go on without this broker. If it cannot be
// asked it will notice.
func (b *Broker) leave() {
	b.leaving.Store(true) // and do not register again
	if client := b.asking.Load(); client != nil {
		ctx, cancel := context.WithTimeout(b.ctx, b.config.HeartbeatInterval)
		defer cancel()
		_ = b.heartbeat(ctx, client, true)
	}
}

// ask sends the controller a request.
func (b *Broker) ask(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	client := b.asking.Load()
	if client == nil {
		return nil, errEnded
	}
	return b.tell(ctx, client, req)
}

// tell waits for the controller's answer no longer than one that lives needs for it.
func (b *Broker) tell(ctx context.Context, client *wire.Client, req kmsg.Request) (kmsg.Response, error) {
	ctx, cancel := context.WithTimeout(ctx, b.config.ControllerTimeout)
	defer cancel()
	return client.Do(ctx, req)
}
