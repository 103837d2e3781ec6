package nats

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/delayedop/purgatory/signals"
)

// A SubjectSource publishes a heartbeat below its prefix each second, and hears it by its own
// subscription. That shows what a PONG of the server does not: that the server has accepted
// the subscription, and delivers. It also hears the heartbeats of the other sources below
// the prefix. If one is missing in the sequence of another source, hints may have been lost on
// the way from that source's server, over a route of a cluster for one. So they may if another
// source is heard for the first time, although both have been there for a while.
const (
	beatEvery = time.Second
	// maxUnheard is how many heartbeats may be on their way before the source is deaf.
	maxUnheard = 3
	// maxNew is how many heartbeats a source sends before all others must have heard it, and it
	// them.
	maxNew = 2
	// maxPeers is how many other sources are remembered.
	maxPeers = 1024
	// beatToken is the subject of the heartbeats below the prefix. No key is encoded so.
	beatToken = "=beat"
)

// errRoute: a heartbeat of another source has been lost on its way.
var errRoute = errors.New("nats: a heartbeat of another source was lost, and so may be hints")

// beats are the heartbeats of one subscription.
type beats struct {
	nc     *nats.Conn
	prefix string
	id     string // of this source in this Run
	in     *inbox
	sent   uint64
	before error             // the connection's last error when Run began
	peers  map[string]uint64 // by id: the last number; used by the client's goroutine only
	since  uint64            // the last of our own numbers when peers was emptied; the same
}

// newBeats returns the heartbeats of a subscription whose name, an inbox, nobody else has.
func newBeats(nc *nats.Conn, prefix string, in *inbox) *beats {
	return &beats{nc: nc, prefix: prefix, id: nc.NewInbox(), in: in, before: nc.LastError(), peers: make(map[string]uint64)}
}

// send publishes a heartbeat, and reports an error if too many have not come back.
func (b *beats) send() error {
	if b.sent-b.in.beat() >= maxUnheard {
		return b.deaf()
	}
	b.sent++
	return b.nc.Publish(b.prefix+beatToken, fmt.Appendf(nil, "%s %d", b.id, b.sent))
}

// confirm returns when a heartbeat has come back. One that was sent on a connection that broke
// never does, so that there is another one after a while.
func (b *beats) confirm(ctx context.Context, l link) error {
	for wait := shortest; ; wait *= 2 {
		b.sent++
		if err := b.nc.Publish(b.prefix+beatToken, fmt.Appendf(nil, "%s %d", b.id, b.sent)); err != nil {
			return err
		}
		late := time.After(wait)
		for waiting := true; waiting; {
			select {
			case <-b.in.ready:
				if b.in.beat() > 0 {
					return nil // hints that came before it can wait for the next message: Missed covers them
				}
			case <-l.events:
				return l.broken()
			case <-late:
				waiting = false
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		if b.refused() != nil || wait > patience {
			return b.deaf()
		}
	}
}

// refused returns the error with which the server has refused something since Run began.
func (b *beats) refused() error {
	if err := b.nc.LastError(); !errors.Is(err, b.before) && errors.Is(err, nats.ErrPermissionViolation) && strings.Contains(err.Error(), b.prefix) {
		return err
	}
	return nil
}

func (b *beats) deaf() error {
	return fmt.Errorf("nats: no heartbeat comes back; the connection's user must be allowed to publish and to subscribe to %q: %w",
		b.prefix+">", errors.Join(errSilent, b.refused()))
}

// heard takes a heartbeat. It runs on the client's goroutine.
func (b *beats) heard(payload []byte) {
	id, text, _ := strings.Cut(string(payload), " ")
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return // somebody else's
	}
	if id == b.id {
		b.in.hear(n)
		return
	}
	last, known := b.peers[id]
	if !known && len(b.peers) == maxPeers {
		clear(b.peers) // most of them have gone
		b.since = b.in.beat()
	}
	b.peers[id] = max(n, last)
	if known && n > last+1 || !known && n > maxNew && b.in.beat() > b.since+maxNew {
		b.in.lose(fmt.Errorf("%w; %w", errRoute, signals.ErrOverflow))
	}
}
