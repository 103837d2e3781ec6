package nats

import (
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/signals"
)

func TestAnInboxKeepsEachKeyOnce(t *testing.T) {
	in := newInbox()
	for _, h := range []hint{{"a", 2}, {"b", 5}, {"a", 1}, {"b", 7}} {
		in.put(h.key, h.position)
	}
	hints, _, lost := in.take()
	assert.Equal(t, []hint{{"a", 2}, {"b", 7}}, hints, "with its highest position")
	assert.NoError(t, lost)
	in.put("b", 8)
	in.put("a", 9)
	hints, _, _ = in.take()
	assert.Equal(t, []hint{{"b", 8}, {"a", 9}}, hints, "what was taken has no place any more")
}

// dropping says how many messages of a subscription were dropped.
type dropping struct {
	n   int
	err error
}

func (d *dropping) Dropped() (int, error) { return d.n, d.err }

// What the client has dropped is a gap once, however long the subscription goes on.
func TestADropIsAGapOnce(t *testing.T) {
	var sub dropping
	d := drops{of: &sub}
	for round := range 3 {
		for range 5 {
			assert.False(t, d.more(), "nothing is dropped in round %d", round)
		}
		sub.n += 1 + round
		sub.err = nats.ErrBadSubscription
		assert.False(t, d.more(), "it does not say")
		sub.err = nil
		assert.True(t, d.more())
	}
}

// The heartbeats of other sources show that hints may have been lost on their way.
func TestAHeartbeatThatIsMissingIsALoss(t *testing.T) {
	for name, c := range map[string]struct {
		beats []string
		lost  bool
	}{
		"none":                        {[]string{"we 1", "we 2", "we 3", "a 1", "b 1", "a 2", "b 2", "a 3", "b 3"}, false},
		"one twice, and in disorder":  {[]string{"a 1", "a 2", "a 2", "a 1", "a 3"}, false},
		"one of the first source":     {[]string{"a 1", "b 1", "b 2", "a 3"}, true},
		"one of the second source":    {[]string{"a 1", "b 1", "a 2", "b 3"}, true},
		"we begin later":              {[]string{"we 1", "we 2", "a 70"}, false},
		"it begins later":             {[]string{"we 1", "we 2", "we 3", "a 1", "a 2"}, false},
		"both were there before":      {[]string{"we 1", "we 2", "we 3", "a 3"}, true},
		"the second was there before": {[]string{"a 1", "we 1", "we 2", "we 3", "b 3"}, true},
		"a stranger's":                {[]string{"a 1", "a", "", "a x", "a -1"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			in := newInbox()
			b := beats{id: "we", in: in, peers: map[string]uint64{}}
			for _, beat := range c.beats {
				b.heard([]byte(beat))
			}
			_, _, lost := in.take()
			if c.lost {
				assert.ErrorIs(t, lost, signals.ErrOverflow)
			} else {
				assert.NoError(t, lost)
			}
		})
	}
}

// Thousands of sources come and go beside one that stays: they are no loss, a bounded number is remembered, and what the one that stays
// says, and what one says that comes later, is followed all the time.
func TestSourcesThatComeAndGoAreNoLoss(t *testing.T) {
	in := newInbox()
	b := beats{id: "we", in: in, peers: map[string]uint64{}}
	second, most := 0, 0
	beat := func(id string, n int) {
		b.heard(fmt.Appendf(nil, "%s %d", id, n))
		most = max(most, len(b.peers))
		_, _, lost := in.take()
		require.NoError(t, lost, "second %d, beat %d of %s", second, n, id)
	}
	const crowd = 100 // that come in each second, and stay for three
	for second = 1; second <= 50; second++ {
		beat("we", second)
		beat("resident", second)
		for i := range 3 * crowd {
			age := i / crowd
			if born := second - age; born > 0 {
				beat(fmt.Sprint("peer", born*crowd+i%crowd), age+1)
			}
		}
	}
	assert.Equal(t, maxPeers, most)
	beat("newcomer", 1)
	for _, gap := range []string{fmt.Sprint("resident ", second+1), "newcomer 3"} {
		b.heard([]byte(gap))
		_, _, lost := in.take()
		assert.ErrorIs(t, lost, errRoute, gap)
	}
}
