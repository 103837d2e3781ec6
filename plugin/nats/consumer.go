package nats

import (
	"context"
	"errors"
	"math"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/delayedop/purgatory/signals"
)

// consumer takes what the server sends of a bucket, until a message is missing.
type consumer struct {
	in        *inbox
	known     atomic.Uint64 // the revision up to which the source has heard the bucket before
	delivered uint64        // the number of the last message; used by the client's goroutine only

	mu struct {
		sync.Mutex
		told   bool   // something has come
		stands bool   // a probe has come back
		probe  uint64 // that is under way; 0: none
		until  uint64 // the stream's last revision when it was sent
	}
}

// probe sends a probe: it asks how long the stream is. The first one is on its way already, as
// the entry at which the consumer begins, or as its first heartbeat. While one is under way
// there is no other.
func (c *consumer) probe(ctx context.Context, l link, stream jetstream.Stream, probe uint64) error {
	c.mu.Lock()
	stands, underWay := c.mu.stands, c.mu.probe > 0
	if !stands {
		c.mu.probe, c.mu.stands = probe, c.mu.told
	}
	back := c.mu.stands && !stands
	if back {
		c.mu.probe = 0
	}
	c.mu.Unlock()
	if back {
		c.in.hear(probe)
	}
	if !stands || underWay {
		return l.rights(inboxes(l.nc))
	}
	for {
		if err := l.rights(inboxes(l.nc)); err != nil {
			return err
		}
		within, cancel := context.WithTimeout(ctx, probeEvery)
		info, err := stream.Info(within)
		cancel()
		if err == nil {
			c.mu.Lock()
			c.mu.probe, c.mu.until = probe, info.State.LastSeq
			c.mu.Unlock()
			return cutOff(info)
		}
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			return err
		}
		select {
		case <-time.After(shortest): // a stream may be without a leader for a while
		case <-ctx.Done():
			return err
		}
	}
}

// reached tells that the consumer has come to a revision of the stream. A probe comes back with that.
func (c *consumer) reached(revision uint64) {
	c.mu.Lock()
	c.mu.told = true
	probe := c.mu.probe
	if probe == 0 || revision < c.mu.until {
		probe = 0
	} else {
		c.mu.probe, c.mu.stands = 0, true
	}
	c.mu.Unlock()
	if probe > 0 {
		c.in.hear(probe)
	}
}

// take puts an entry into the inbox. If one before it is missing, the inbox says that something
// was lost. The client may drop a message where many come at once.
func (c *consumer) take(m *nats.Msg) {
	meta, err := m.Metadata()
	if err != nil { // a heartbeat, which says how far the consumer is, or a stranger's
		last, err := strconv.ParseUint(m.Header.Get("Nats-Last-Consumer"), 10, 64)
		if err != nil {
			return
		}
		if last != c.delivered {
			c.in.lose(signals.ErrOverflow)
			return
		}
		if revision, err := strconv.ParseUint(m.Header.Get("Nats-Last-Stream"), 10, 64); err == nil {
			c.reached(revision)
		}
		return
	}
	if meta.Sequence.Consumer != c.delivered+1 {
		c.in.lose(signals.ErrOverflow)
		return
	}
	c.delivered++
	if parts := strings.SplitN(m.Subject, ".", 3); len(parts) == 3 && meta.Sequence.Stream > c.known.Load() { // $KV.bucket.token
		c.in.put(parts[2], int64(min(meta.Sequence.Stream, math.MaxInt64)))
	}
	c.reached(meta.Sequence.Stream)
}

// naming gives the entries of a bucket the names of their keys. A token with an escape is the key that it
// decodes to; but another program may have written it as it is: "n=10".
type naming struct{ signals.Sink[string] }

func (n naming) Changed(token string, revision int64) {
	key, err := Decode(token)
	if err == nil {
		n.Sink.Changed(key, revision)
	}
	if key != token {
		n.Sink.Changed(token, revision)
	}
}
