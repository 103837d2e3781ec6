package nats

import (
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"

	"github.com/delayedop/purgatory/signals"
)

// entry is a message about an entry of a bucket: its number in the stream and that of the consumer.
func entry(stream, consumer int) *nats.Msg {
	m := nats.NewMsg("$KV.state.a")
	m.Sub, m.Reply = new(nats.Subscription), fmt.Sprintf("$JS.ACK.KV_state.consumer.1.%d.%d.1700000000000000000.0", stream, consumer)
	return m
}

// idle is a heartbeat of the server, which says the number of the consumer's last message.
func idle(consumer int) *nats.Msg {
	m := nats.NewMsg("inbox")
	m.Header.Set("Status", "100")
	m.Header.Set("Nats-Last-Consumer", fmt.Sprint(consumer))
	return m
}

// The client may drop messages where many come at once. The numbers show it.
func TestAMessageThatIsMissingShows(t *testing.T) {
	for name, c := range map[string]struct {
		messages []*nats.Msg
		hints    int
		lost     bool
	}{
		"none":                {[]*nats.Msg{idle(0), entry(7, 1), entry(9, 2), idle(2)}, 1, false},
		"the first":           {[]*nats.Msg{entry(9, 2)}, 0, true},
		"one between":         {[]*nats.Msg{entry(7, 1), entry(9, 3)}, 1, true},
		"the last":            {[]*nats.Msg{entry(7, 1), idle(2)}, 1, true},
		"what follows a loss": {[]*nats.Msg{entry(7, 1), entry(9, 3), entry(10, 4)}, 1, true},
	} {
		in := newInbox()
		taking := consumer{in: in}
		for _, m := range c.messages {
			taking.take(m)
		}
		hints, _, lost := in.take()
		assert.Len(t, hints, c.hints, name)
		if c.lost {
			assert.ErrorIs(t, lost, signals.ErrOverflow, name)
		} else {
			assert.NoError(t, lost, name)
		}
	}
}
