package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

// start is what the messages of the demo count their time from.
var start = time.Now()

func sinceStart() time.Duration { return time.Since(start) }

// poller is a client that follows one topic by long polls until the server sends it away.
type poller struct {
	client *client
	topic  string

	next    atomic.Int64 // offset of the message that it needs
	stopped atomic.Bool  // run has returned

	// The rest is run's until it has returned.
	answers  int
	missed   int64           // messages that were gone before it asked for them; it was told so
	latency  []time.Duration // of each message that it was sent, from POST to the answer
	sentAway bool            // by a 503 with Retry-After
}

// run polls until the poller is sent away.
func (p *poller) run() error {
	defer p.stopped.Store(true)
	for !p.sentAway {
		if err := p.poll(); err != nil {
			return fmt.Errorf("a poller of %s: %w", p.topic, err)
		}
	}
	return nil
}

func (p *poller) poll() error {
	r, err := p.client.poll(context.Background(), p.topic, p.next.Load()-1, pollTimeout)
	switch {
	case err != nil:
		return err
	case r.status == http.StatusServiceUnavailable && r.retryAfter != "":
		p.sentAway = true
		return nil
	case r.status == http.StatusOK:
		return p.take(r.body.Messages)
	case r.status == http.StatusGone:
		return p.skipTo(r.body.Oldest)
	default:
		return fmt.Errorf("status %d: %s", r.status, r.body.Error)
	}
}

// take checks that messages go on where the last answer ended.
func (p *poller) take(messages []message) error {
	p.answers++
	now := sinceStart()
	for _, m := range messages {
		if want := p.next.Load(); m.Offset != want {
			return fmt.Errorf("got offset %d, the next is %d", m.Offset, want)
		}
		sent, err := strconv.ParseInt(m.Body, 10, 64)
		if err != nil {
			return err
		}
		p.latency = append(p.latency, now-time.Duration(sent))
		p.next.Add(1)
	}
	return nil
}

// skipTo goes on where messages are not gone yet.
func (p *poller) skipTo(oldest int64) error {
	from := p.next.Swap(oldest)
	if oldest <= from {
		return fmt.Errorf("offset %d is said to be gone, and the oldest to be %d", from, oldest)
	}
	p.missed += oldest - from
	return nil
}

// verdict says, after run has returned, what was wrong.
func (p *poller) verdict(published int64) error {
	switch {
	case int64(len(p.latency))+p.missed != published:
		return fmt.Errorf("a poller of %s was sent %d messages of %d, and told of %d that it missed", p.topic, len(p.latency), published, p.missed)
	case !p.sentAway:
		return errors.New("a poller was not sent away at the shutdown")
	}
	return nil
}
