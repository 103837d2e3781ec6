package nats

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/delayedop/purgatory/signals"
)

// The probes of a SubjectSource are heartbeats that it publishes below its prefix, and hears by its
// own subscription. That shows what a PONG of the server does not: that the server has accepted
// the subscription, and delivers. It also hears the heartbeats of the other sources below
// the prefix. If one is missing in the sequence of another source, hints may have been lost on
// the way from that source's server, over a route of a cluster for one. So they may if another
// source is heard for the first time, although both have been there for a while.
const (
	beatEvery = time.Second
	beatLimit = 4 * time.Second
	// routeAudit is the longest interval between audits where the server is one of a cluster: a route
	// that breaks between two heartbeats, and is mended before the second, loses hints and no heartbeat.
	routeAudit = 15 * time.Second
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
	link
	prefix string
	id     string // of this source in this Run
	in     *inbox
	first  atomic.Uint64 // the runner's number of the first probe

	// Only the client's goroutine uses these.
	peers map[string]uint64 // by id: the last number
	own   uint64            // the last of our own numbers that has come back
	since uint64            // own when peers was emptied
}

// newBeats returns the heartbeats of a subscription whose name, an inbox, nobody else has.
func newBeats(l link, prefix string, in *inbox) *beats {
	return &beats{link: l, prefix: prefix, id: l.nc.NewInbox(), in: in, peers: make(map[string]uint64)}
}

// send publishes a probe of the runner. A heartbeat's number is that of the probe in this subscription.
func (b *beats) send(_ context.Context, probe uint64) error {
	if err := b.rights(b.prefix); err != nil {
		return err
	}
	b.first.CompareAndSwap(0, probe)
	return b.nc.Publish(b.prefix+beatToken, fmt.Appendf(nil, "%s %d", b.id, probe-b.first.Load()+1))
}

// heard takes a heartbeat. It runs on the client's goroutine.
func (b *beats) heard(payload []byte) {
	id, text, _ := strings.Cut(string(payload), " ")
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return // somebody else's
	}
	if id == b.id {
		b.own = max(b.own, n)
		b.in.hear(n + b.first.Load() - 1)
		return
	}
	last, known := b.peers[id]
	if !known && len(b.peers) == maxPeers {
		clear(b.peers) // most of them have gone
		b.since = b.own
	}
	b.peers[id] = max(n, last)
	if known && n > last+1 || !known && n > maxNew && b.own > b.since+maxNew {
		b.in.lose(fmt.Errorf("%w; %w", errRoute, signals.ErrOverflow))
	}
}

// errNoEcho: the client has told the server not to send it what it publishes.
var errNoEcho = fmt.Errorf("the connection has nats.NoEcho, so that a source of Subjects cannot hear its own heartbeats: give it another one; %w", signals.ErrFinal)
