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

// buffer is how many hints of core NATS wait for the sink before some are dropped.
const buffer = 8192

// SubjectSource hears hints that [Hint] has published. It is a signals.Source.
type SubjectSource struct {
	nc     *nats.Conn
	prefix string
}

// Subjects returns a source of the hints below prefix, a subject without wildcards:
// "hints.orders" hears "hints.orders.>". Core NATS delivers at most once: use
// signals.WithAudit. Error: ErrKey.
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

// Run implements signals.Source. It ends when the connection breaks. It waits for a connection
// that is being made again.
func (s *SubjectSource) Run(ctx context.Context, sink signals.Sink[string]) error {
	l := watch(s.nc)
	defer l.close()
	if err := l.connected(ctx); err != nil {
		return err
	}
	messages := make(chan *nats.Msg, buffer)
	sub, err := s.nc.ChanSubscribe(s.prefix+">", messages)
	if err != nil {
		return err
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := s.stands(ctx, l); err != nil {
		return err
	}
	sink.Missed(signals.ErrSubscribed)
	dropped := 0
	for n := 1; ; n++ {
		select {
		case m := <-messages:
			s.deliver(m, sink)
			// A message is dropped only while the channel is full, so that there is a look after each drop.
			if len(messages) > 0 && n%buffer != 0 {
				continue
			}
			if now, err := sub.Dropped(); err == nil && now != dropped {
				dropped = now
				sink.Missed(signals.ErrOverflow)
			}
		case <-l.events:
			return l.broken()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// stands waits until the server has confirmed the subscription, or has refused it.
func (s *SubjectSource) stands(ctx context.Context, l link) error {
	if err := l.confirm(ctx); err != nil {
		return err
	}
	if err := s.nc.LastError(); errors.Is(err, nats.ErrPermissionViolation) && strings.Contains(err.Error(), s.prefix+">") {
		return fmt.Errorf("nats: subscription to %q: %w", s.prefix+">", err)
	}
	return nil
}

// deliver passes a message on; one that is no hint counts as one for a key that nobody
// can wait for, and is left out.
func (s *SubjectSource) deliver(m *nats.Msg, sink signals.Sink[string]) {
	key, err := Decode(strings.TrimPrefix(m.Subject, s.prefix))
	if err != nil {
		return
	}
	position, err := strconv.ParseInt(string(m.Data), 10, 64)
	if err != nil {
		position = signals.Unknown
	}
	sink.Changed(key, position)
}
