package nats

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/delayedop/purgatory/signals"
)

// SubjectSource hears hints that [Hint] has published. It is a signals.Source.
type SubjectSource struct {
	nc     *nats.Conn
	prefix string
}

// Subjects returns a source of the hints below prefix, a subject without wildcards:
// "hints.orders" hears "hints.orders.>". The connection's user must be allowed to
// subscribe to these subjects, and to publish to them for the heartbeats. Core NATS delivers
// at most once: leave the audits of signals.WithAudit on. Error: ErrKey.
func Subjects(nc *nats.Conn, prefix string) (*SubjectSource, error) {
	if err := checkPrefix(prefix); err != nil {
		return nil, err
	}
	return &SubjectSource{nc, prefix + "."}, nil
}

// Hint publishes that key has changed up to position (signals.Unknown if there is none).
// Call it after the change has been committed. When Hint returns, the client has taken the
// message, but may not have sent it yet, and it may still be lost. Errors: ErrKey, and those
// of the connection.
func Hint(nc *nats.Conn, prefix, key string, position int64) error {
	if err := checkPrefix(prefix); err != nil {
		return err
	}
	token, err := Encode(key)
	if err != nil {
		return err
	}
	var payload []byte
	if position != signals.Unknown {
		payload = strconv.AppendInt(nil, position, 10)
	}
	return nc.Publish(prefix+"."+token, payload)
}

func checkPrefix(prefix string) error {
	for token := range strings.SplitSeq(prefix, ".") {
		if token == "" || strings.ContainsAny(token, "*> \t\r\n") || len(prefix) > MaxKey/2 {
			return fmt.Errorf("%w: the prefix is %q, must be a subject without wildcards", ErrKey, prefix)
		}
	}
	return nil
}

// Run implements signals.Source. It ends when the connection breaks, or when heartbeats do not
// come back, as when the server refuses the subscription. It waits for a connection that is
// being made again. If the connection is closed, or has nats.NoEcho, the error wraps
// signals.ErrFinal.
func (s *SubjectSource) Run(ctx context.Context, sink signals.Sink[string]) error {
	if s.nc.Opts.NoEcho {
		return fmt.Errorf("nats: %q: %w", s.prefix+">", errNoEcho)
	}
	l := watch(s.nc)
	defer l.close()
	if err := l.connected(ctx); err != nil {
		return err
	}
	in := newInbox()
	b := newBeats(l, s.prefix, in)
	sub, err := s.nc.Subscribe(s.prefix+">", func(m *nats.Msg) { s.hear(m, b) })
	if err != nil {
		return err
	}
	defer func() { _ = sub.Unsubscribe() }()
	subscription := signals.Subscription{Probe: b.send, Every: beatEvery, Limit: beatLimit}
	if s.nc.ConnectedClusterName() != "" {
		subscription.Audit = routeAudit
	}
	sink.Subscribed(subscription)
	drops := drops{of: sub}
	for {
		select {
		case <-in.ready:
			_, lost := in.passTo(sink)
			if drops.more() { // the client drops a message only while there are others, which it then hears
				lost = signals.ErrOverflow
			}
			if lost != nil {
				sink.Missed(lost)
			}
		case <-l.events:
			return l.broken()
		case <-ctx.Done():
			if err := context.Cause(ctx); !errors.Is(err, signals.ErrDeaf) {
				return err
			}
			return l.why(fmt.Errorf("nats: %q: %w", s.prefix+">", context.Cause(ctx)), s.prefix, "publish and to subscribe to")
		}
	}
}

// drops tells when the client has dropped messages of a subscription.
type drops struct {
	of    interface{ Dropped() (int, error) }
	known int
}

// more reports whether the client has dropped messages since the last call.
func (d *drops) more() bool {
	n, err := d.of.Dropped()
	if err != nil || n == d.known {
		return false
	}
	d.known = n
	return true
}

// hear takes a message. It leaves out one that is no hint, as if it were for a key that nobody
// can wait for. It runs on the client's goroutine.
func (s *SubjectSource) hear(m *nats.Msg, b *beats) {
	token := strings.TrimPrefix(m.Subject, s.prefix)
	if token == beatToken {
		b.heard(m.Data)
		return
	}
	key, err := Decode(token)
	if err != nil {
		return
	}
	position, err := strconv.ParseInt(string(m.Data), 10, 64)
	if err != nil {
		position = signals.Unknown
	}
	b.in.put(key, position)
}
