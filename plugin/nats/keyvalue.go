package nats

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/delayedop/purgatory/signals"
)

// heartbeat is how often a server says that it is there, where it has nothing else to say.
const heartbeat = 2 * time.Second

// shortest is how long the first attempt to subscribe may take; the next may take longer,
// up to patience.
const shortest = 100 * time.Millisecond

// BucketSource hears what is written to a key-value bucket. It is a signals.Source, and
// must not be run twice at a time.
type BucketSource struct {
	nc       *nats.Conn
	bucket   string
	revision uint64 // of the last entry that was heard; 0: none
}

// KeyValue returns a source of the keys of a bucket: each put, delete and purge is a hint
// whose position is its revision. The values are not transferred. The keys are decoded by
// [Decode]; write with those of [Encode].
//
// After a gap the source goes on with the next revision, so that what changed meanwhile
// is hinted at, and it also says Missed: the bucket may have been restored, and entries
// may have left it by its limits.
func KeyValue(nc *nats.Conn, bucket string) *BucketSource {
	return &BucketSource{nc: nc, bucket: bucket}
}

// Run implements signals.Source. It ends when the connection breaks, a message is missing, the
// server falls silent, or the bucket cannot be watched. It waits for a connection that is
// being made again. If the connection is closed, the error wraps signals.ErrFinal.
//
// A server that takes away the right to subscribe to inboxes ends the client's subscription
// to the answers of all requests, and the client does not notice. If Run finds the connection
// so, it has the client reconnect, because nothing else makes that subscription again.
func (s *BucketSource) Run(ctx context.Context, sink signals.Sink[string]) error {
	js, err := jetstream.New(s.nc)
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
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !errors.Is(err, context.DeadlineExceeded):
			return fmt.Errorf("nats: bucket %q: %w", s.bucket, err)
		case wait < patience:
			// A request on a connection that broke is never answered.
		case l.deaf(ctx):
			_ = s.nc.ForceReconnect()
			return fmt.Errorf("nats: bucket %q: no answer comes back, and the connection is made anew; its user must be allowed to subscribe to %q: %w",
				s.bucket, inboxes(s.nc), err)
		default:
			return fmt.Errorf("nats: bucket %q: %w", s.bucket, err)
		}
	}
}

// hear listens to the bucket until something happens to the connection, or a message is
// missing. It waits for the subscription only so long.
func (s *BucketSource) hear(ctx context.Context, js jetstream.JetStream, l link, sink signals.Sink[string], wait time.Duration) error {
	in := newInbox()
	delivered := uint64(0)
	sub, err := s.nc.Subscribe(s.nc.NewInbox(), func(m *nats.Msg) { s.take(m, &delivered, in) })
	if err != nil {
		return err
	}
	defer func() { _ = sub.Unsubscribe() }()
	within, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	leave, err := s.subscribe(within, js, sub.Subject)
	if err != nil {
		return err
	}
	defer leave()
	sink.Missed(signals.ErrSubscribed)
	silence := time.NewTimer(3 * heartbeat)
	defer silence.Stop()
	for {
		select {
		case <-in.ready:
			silence.Reset(3 * heartbeat)
			hints, lost := in.take()
			for _, h := range hints {
				s.revision = max(s.revision, uint64(h.position))
				sink.Changed(h.key, h.position)
			}
			if lost != nil {
				return lost // the next Run subscribes from our revision on
			}
		case <-silence.C:
			if len(in.ready) == 0 { // otherwise it was the sink that was slow
				return errSilent
			}
			silence.Reset(3 * heartbeat)
		case <-l.events:
			return l.broken()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// subscribe has the server send the bucket's entries to a subject, from the next revision
// on. The server has confirmed that when it returns.
func (s *BucketSource) subscribe(ctx context.Context, js jetstream.JetStream, to string) (leave func(), err error) {
	stream, err := js.Stream(ctx, "KV_"+s.bucket)
	if err != nil {
		return nil, err
	}
	if stream.CachedInfo().State.LastSeq < s.revision {
		s.revision = 0 // another bucket of that name, or an older state of it
	}
	config := jetstream.ConsumerConfig{
		DeliverSubject:    to,
		DeliverPolicy:     jetstream.DeliverNewPolicy,
		FilterSubject:     s.subject(">"),
		AckPolicy:         jetstream.AckNonePolicy,
		HeadersOnly:       true,
		IdleHeartbeat:     heartbeat,
		InactiveThreshold: 30 * time.Second,
		MemoryStorage:     true,
		Replicas:          1,
	}
	if s.revision > 0 {
		config.DeliverPolicy, config.OptStartSeq = jetstream.DeliverByStartSequencePolicy, s.revision+1
	}
	consumer, err := stream.CreatePushConsumer(ctx, config)
	if err != nil {
		return nil, err
	}
	name := consumer.CachedInfo().Name
	return func() {
		if !s.nc.IsConnected() {
			return // the server forgets it by itself
		}
		within, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = stream.DeleteConsumer(within, name)
	}, nil
}

func (s *BucketSource) subject(key string) string { return "$KV." + s.bucket + "." + key }

// take puts an entry into the inbox. If one before it is missing, the inbox says that something
// was lost: delivered is the number of the consumer's last message. The client may drop a
// message where many come at once.
func (s *BucketSource) take(m *nats.Msg, delivered *uint64, in *inbox) {
	meta, err := m.Metadata()
	if err != nil { // a heartbeat, which says how far the consumer is, or a stranger's
		last, err := strconv.ParseUint(m.Header.Get("Nats-Last-Consumer"), 10, 64)
		if err == nil && last != *delivered {
			in.lose(signals.ErrOverflow)
		}
		in.wake()
		return
	}
	if meta.Sequence.Consumer != *delivered+1 {
		in.lose(signals.ErrOverflow)
		return
	}
	*delivered++
	if key, err := Decode(strings.TrimPrefix(m.Subject, s.subject(""))); err == nil {
		in.put(key, int64(min(meta.Sequence.Stream, math.MaxInt64)))
	}
}
