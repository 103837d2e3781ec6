package nats

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/delayedop/purgatory/signals"
)

// The server sends a heartbeat where a consumer has nothing else to send, and tells in it how far the
// consumer has come in the stream. So a probe is a question to the server how long the stream is. It
// has come back when the consumer is as far: then everything that was written before the question
// has been delivered. Nothing has to be written to the bucket for that.
const (
	heartbeat              = time.Second
	probeEvery, probeLimit = 2 * time.Second, 6 * time.Second
	// A mirror hears a heartbeat of its origin each second.
	mirrorLimit = 4 * time.Second
)

// shortest is how long the first attempt to subscribe may take; the next may take longer,
// up to patience. After one that took deafAfter, the source asks whether any answer comes back.
const shortest, deafAfter = 100 * time.Millisecond, 400 * time.Millisecond

// BucketSource hears what is written to a key-value bucket. It is a signals.Source, and
// must not be run twice at a time.
type BucketSource struct {
	nc       *nats.Conn
	js       jetstream.JetStream // nil: that of nc
	bucket   string
	revision uint64 // of the last entry that was heard, or that was there when the source first subscribed; 0: none
}

// KeyValue returns a source of the keys of a bucket: each put, delete and purge is a hint
// whose position is its revision. The values are not transferred. The keys are decoded by
// [Decode]; write with those of [Encode].
//
// After a gap the source goes on with the next revision, so that what changed meanwhile
// is hinted at, and everything is re-checked, too: the bucket may have been restored, and entries
// may have left it by its limits.
//
// The bucket may be a mirror of another one. The source does not stand while the mirror hears
// nothing from its origin.
func KeyValue(nc *nats.Conn, bucket string) *BucketSource {
	return &BucketSource{nc: nc, bucket: bucket}
}

// KeyValueOf is KeyValue for a bucket in another JetStream domain, or that has another prefix of its
// API: js comes from jetstream.NewWithDomain or jetstream.NewWithAPIPrefix.
func KeyValueOf(js jetstream.JetStream, bucket string) *BucketSource {
	return &BucketSource{nc: js.Conn(), js: js, bucket: bucket}
}

// Run implements signals.Source. It ends when the connection breaks, a message is missing, the
// server falls silent, or the bucket cannot be watched. It waits for a connection that is
// being made again. If the connection is closed, the error wraps signals.ErrFinal.
//
// A server that takes away the right to subscribe to inboxes ends the client's subscription
// to the answers of all requests, and the client does not notice. If Run finds the connection
// so, it has the client reconnect, because nothing else makes that subscription again.
func (s *BucketSource) Run(ctx context.Context, sink signals.Sink[string]) error {
	js, err := s.js, error(nil)
	if js == nil {
		js, err = jetstream.New(s.nc)
	}
	if err != nil {
		return err
	}
	l := watch(s.nc)
	defer l.close()
	for wait := shortest; ; wait *= 2 {
		if err := l.connected(ctx); err != nil {
			return err
		}
		err := s.hear(ctx, js, l, sink, wait)
		cause := context.Cause(ctx)
		switch {
		case cause != nil && !errors.Is(cause, signals.ErrDeaf):
			return cause
		case !errors.Is(err, context.DeadlineExceeded) || cause != nil:
			return s.failed(l, err)
		case wait >= deafAfter && l.deaf(ctx):
			err = s.failed(l, fmt.Errorf("no answer comes back, and the connection is made anew: %w", err))
			_ = s.nc.ForceReconnect() // the client forgets its last error by that
			return err
		case wait >= patience:
			return s.failed(l, err)
		}
		// A request on a connection that broke is never answered.
	}
}

func (s *BucketSource) failed(l link, err error) error {
	return l.why(fmt.Errorf("nats: bucket %q: %w", s.bucket, err), inboxes(s.nc), "subscribe to")
}

// hear listens to the bucket until something happens to the connection, or a message is
// missing. It waits for the subscription only so long.
func (s *BucketSource) hear(ctx context.Context, js jetstream.JetStream, l link, sink signals.Sink[string], wait time.Duration) error {
	in := newInbox()
	c := consumer{in: in}
	sub, err := s.nc.Subscribe(s.nc.NewInbox(), c.take)
	if err != nil {
		return err
	}
	defer func() { _ = sub.Unsubscribe() }()
	within, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	stream, leave, err := s.subscribe(within, js, sub.Subject, &c)
	if err != nil {
		return err
	}
	defer leave()
	sink.Subscribed(signals.Subscription{
		Every: probeEvery, Limit: probeLimit, Blind: blind(&stream.CachedInfo().Config),
		Probe: func(ctx context.Context, probe uint64) error { return c.probe(ctx, l, stream, probe) },
	})
	for {
		select {
		case <-in.ready:
			last, lost := in.passTo(naming{sink})
			s.revision = max(s.revision, uint64(last))
			if lost != nil {
				return lost // the next Run subscribes from our revision on
			}
		case <-l.events:
			return l.broken()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// blind says what the server sends no hint for in a bucket of this configuration.
func blind(c *jetstream.StreamConfig) string {
	if c.MaxAge > 0 && c.SubjectDeleteMarkerTTL == 0 {
		return fmt.Sprintf("keys that expire after the TTL of bucket %q, %v: it has no limit markers (LimitMarkerTTL)", strings.TrimPrefix(c.Name, "KV_"), c.MaxAge)
	}
	return ""
}

// subscribe has the server send the bucket's entries to a subject, from the next revision on, or
// from the last one that the source knows if there is none: the first message shows that the
// consumer delivers. The server has confirmed the consumer when subscribe returns.
//
// The consumer has no filter. The stream of a bucket holds its entries and nothing else, and those
// of a mirror have the name of their origin in their subjects.
func (s *BucketSource) subscribe(ctx context.Context, js jetstream.JetStream, to string, c *consumer) (stream jetstream.Stream, leave func(), err error) {
	stream, err = js.Stream(ctx, "KV_"+s.bucket)
	if err != nil {
		return nil, nil, err
	}
	info := stream.CachedInfo()
	if err := cutOff(info); err != nil {
		return nil, nil, err
	}
	if s.revision == 0 || info.State.LastSeq < s.revision {
		s.revision = info.State.LastSeq // also of another bucket of that name, or an older state of it
	}
	from := max(s.revision, 1)
	if info.State.LastSeq > s.revision {
		from = s.revision + 1
	}
	config := jetstream.ConsumerConfig{
		DeliverSubject:    to,
		DeliverPolicy:     jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:       from,
		AckPolicy:         jetstream.AckNonePolicy,
		HeadersOnly:       true,
		IdleHeartbeat:     heartbeat,
		InactiveThreshold: 30 * time.Second,
		MemoryStorage:     true,
		Replicas:          1,
	}
	c.known.Store(s.revision)
	made, err := stream.CreatePushConsumer(ctx, config)
	if err != nil {
		return nil, nil, err
	}
	name := made.CachedInfo().Name
	return stream, func() {
		if !s.nc.IsConnected() {
			return // the server forgets it by itself
		}
		within, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = stream.DeleteConsumer(within, name)
	}, nil
}

// cutOff returns an error if the stream is a mirror that does not hear its origin.
func cutOff(info *jetstream.StreamInfo) error {
	switch m := info.Mirror; {
	case m == nil:
		return nil
	case m.Active < 0:
		return fmt.Errorf("it is a mirror of %q, from which it has heard nothing yet", m.Name)
	case m.Active > mirrorLimit:
		return fmt.Errorf("it is a mirror of %q, from which it has heard nothing for %v", m.Name, m.Active.Round(time.Second))
	}
	return nil
}
