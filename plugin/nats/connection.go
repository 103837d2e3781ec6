package nats

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
)

// patience is about how long a server may take to confirm a subscription.
const patience = 5 * time.Second

// link watches a connection of the user's.
type link struct {
	nc     *nats.Conn
	events chan nats.Status
}

// watch begins to watch nc. What happens to the connection from here on is in events;
// beyond ten events that nobody has taken the later ones are not, which is no harm:
// the connection is looked at after each.
func watch(nc *nats.Conn) link {
	return link{nc, nc.StatusChanged(nats.CONNECTED, nats.RECONNECTING, nats.DISCONNECTED, nats.CLOSED)}
}

func (l link) close() { l.nc.RemoveStatusListener(l.events) }

// connected waits until the connection stands, and has taken notice of every event. It
// fails when the connection is closed, by the user or after its last attempt.
func (l link) connected(ctx context.Context) error {
	for {
		if l.nc.IsClosed() {
			return nats.ErrConnectionClosed
		}
		if l.nc.IsConnected() && len(l.events) == 0 {
			return nil
		}
		select {
		case <-l.events:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// broken returns why a source ends after an event.
func (l link) broken() error {
	if l.nc.IsClosed() {
		return nats.ErrConnectionClosed
	}
	return nats.ErrDisconnected
}

// confirm waits until the server has answered: it has then dealt with what was sent to
// it before, a subscription for one. A ping that was sent on a connection that broke is
// never answered, so that there is another one after a while.
func (l link) confirm(ctx context.Context) error {
	for wait := shortest / 2; ; wait *= 2 {
		within, cancel := context.WithTimeout(ctx, wait)
		err := l.nc.FlushWithContext(within)
		cancel()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case l.nc.IsClosed() || wait > patience:
			return fmt.Errorf("nats: the server has not confirmed the subscription: %w", err)
		}
	}
}
