package debug

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/signals"
)

// fixedSource is a source of hints whose numbers are known.
type fixedSource struct{ n signals.Stats }

func (s *fixedSource) Stats() signals.Stats { return s.n }

// hearing is what has happened in the last two minutes, or, with since, since start.
type hearing struct {
	gaps, failures, ends int64
	earlier              int64 // hints, a minute ago or longer
	since                bool
}

// healthySource returns the numbers of a source on a day without trouble.
func healthySource() signals.Stats {
	return signals.Stats{Name: "nats", Running: true, Standing: true, Hints: 50, SinceLastWord: time.Second}
}

func TestASickSourceHasItsNote(t *testing.T) {
	broken := errors.New("connection refused")
	for _, c := range []struct {
		name  string
		make  func(n *signals.Stats, h *hearing)
		level string // empty: no note
		text  string
	}{
		{"all is well", func(*signals.Stats, *hearing) {}, "", ""},
		{"nobody runs it", func(n *signals.Stats, _ *hearing) { n.Running, n.Standing = false, false }, "trouble", "it does not run: Run has not been called, or has returned; no word since 11:59:59, for 1s"},
		{"it has ended for good", func(n *signals.Stats, _ *hearing) { n.Running, n.Standing, n.Err = false, false, broken }, "trouble", "it does not run: Run has not been called, or has returned; no word since 11:59:59, for 1s; last: connection refused"},
		{"it is restarted", func(n *signals.Stats, _ *hearing) { n.Standing, n.Ends, n.Err = false, 3, broken }, "trouble", "restarting: connection refused; no word since 11:59:59"},
		{"it is restarted, and said nothing", func(n *signals.Stats, _ *hearing) { n.Standing, n.Ends = false, 3 }, "trouble", "restarting: without an error"},
		{"it is about to subscribe", func(n *signals.Stats, _ *hearing) { n.Standing = false }, "look", "it has not subscribed yet"},
		{"it never subscribes", func(n *signals.Stats, _ *hearing) { n.Standing, n.SinceLastWord = false, time.Minute }, "trouble", "it has not subscribed yet, or does not hear itself; no word since 11:59:00"},
		{"it has ended, and stands again", func(n *signals.Stats, h *hearing) { n.Ends, n.Err, h.ends, h.gaps = 9, broken, 2, 2 }, "look", "it ended 2 times in the last 2 min, last: connection refused"},
		{"it ended last week", func(n *signals.Stats, _ *hearing) { n.Ends, n.Gaps, n.Err = 9, 9, broken }, "", ""},
		{"gaps", func(_ *signals.Stats, h *hearing) { h.gaps = 1 }, "look", "1 gap in the last 2 min"},
		{"it talked, and is silent", func(n *signals.Stats, h *hearing) { n.SinceLastWord, h.earlier = 90*time.Second, 10 }, "look", "no word since 11:58:30, for 1m30s"},
		{"it hardly talked", func(n *signals.Stats, h *hearing) { n.SinceLastWord, h.earlier = 90*time.Second, 9 }, "", ""},
		{"it pauses", func(n *signals.Stats, h *hearing) { n.SinceLastWord, h.earlier = 50*time.Second, 10 }, "", ""},
		{"it has been silent for long", func(n *signals.Stats, _ *hearing) { n.SinceLastWord, n.Hints = 6*time.Minute, 100 }, "look", "no word since 11:54:00"},
		{"there has never been much", func(n *signals.Stats, _ *hearing) { n.SinceLastWord, n.Hints = 6*time.Hour, 99 }, "", ""},
		{"bulk reads fail", func(_ *signals.Stats, h *hearing) { h.failures = 2 }, "trouble", "2 bulk reads failed in the last 2 min"},
		{"a bulk read hangs", func(n *signals.Stats, _ *hearing) { n.Reading = 2 * time.Minute }, "trouble", "a bulk read has been in progress for 2m"},
		{"a bulk read is in progress", func(n *signals.Stats, _ *hearing) { n.Reading = 10 * time.Second }, "", ""},
		{"reads lag too far", func(n *signals.Stats, _ *hearing) { n.Lag, n.LagAllowed = 3*time.Second, 2*time.Second }, "look", "a read was behind its hint by 3s, and WithLag allows 2s"},
		{"reads lag as allowed", func(n *signals.Stats, _ *hearing) { n.Lag, n.LagAllowed = time.Second, 2*time.Second }, "", ""},
		{"no read lags, and none may", func(*signals.Stats, *hearing) {}, "", ""},
		{"the engine does not say all", func(n *signals.Stats, _ *hearing) { n.Blind = "keys that expire" }, "look", "the engine sends no hint for keys that expire"},
		{"the engine's queue fills", func(n *signals.Stats, _ *hearing) { n.QueueUsed = 0.5 }, "trouble", "the engine's queue of hints is full to 50 %"},
		{"the engine's queue is all but empty", func(n *signals.Stats, _ *hearing) { n.QueueUsed = 0.01 }, "", ""},
		{"it talked, and is silent for a minute", func(n *signals.Stats, h *hearing) { n.SinceLastWord, h.earlier = silentSoon, 10 }, "", ""},
		{"it talked, and is silent for longer", func(n *signals.Stats, h *hearing) { n.SinceLastWord, h.earlier = silentSoon+1, 10 }, "look", "no word since"},
		{"it has been silent for five minutes", func(n *signals.Stats, _ *hearing) { n.SinceLastWord, n.Hints = silentLate, 100 }, "", ""},
		{"it has been silent for longer", func(n *signals.Stats, _ *hearing) { n.SinceLastWord, n.Hints = silentLate+1, 100 }, "look", "no word since"},
		{"it takes ten seconds to subscribe", func(n *signals.Stats, _ *hearing) { n.Standing, n.SinceLastWord = false, standsAfter }, "look", "it has not subscribed yet, or has yet"},
		{"it takes longer to subscribe", func(n *signals.Stats, _ *hearing) { n.Standing, n.SinceLastWord = false, standsAfter+1 }, "trouble", "it has not subscribed yet, or does not"},
		{"a bulk read takes as long as it may", func(n *signals.Stats, _ *hearing) { n.Reading = longRead }, "", ""},
		{"a bulk read takes longer", func(n *signals.Stats, _ *hearing) { n.Reading = longRead + 1 }, "trouble", "a bulk read has been in progress for 30s"},
		{"reads lag by as much as is allowed", func(n *signals.Stats, _ *hearing) { n.Lag, n.LagAllowed = 2*time.Second, 2*time.Second }, "look", "a read was behind its hint by 2s"},
		{"a read lags, and none may", func(n *signals.Stats, _ *hearing) { n.Lag = 1 }, "look", "a read was behind its hint by"},
		{"the engine's queue is a quarter full", func(n *signals.Stats, _ *hearing) { n.QueueUsed = fullQueue }, "", ""},
		{"a bulk read failed at some time", func(n *signals.Stats, h *hearing) { h.since, h.failures, n.Failures = true, 1, 1 }, "look", "1 bulk read failed since start"},
	} {
		n, h := healthySource(), hearing{}
		c.make(&n, &h)
		before := n
		before.Gaps, before.Failures, before.Ends = n.Gaps-h.gaps, n.Failures-h.failures, n.Ends-h.ends
		samples := []sample[signals.Stats]{{noon.Add(-2 * time.Minute), before}, {noon.Add(-time.Minute), before}, {noon.Add(-time.Second), n}}
		samples[1].stats.Hints += h.earlier
		if h.since {
			samples = samples[2:]
		}
		expectNote(t, c.name, signalNotes(&n, &before, samples, noon), c.level, c.text)
	}
}

// Each number has a value that no other has, in the text. A field that signals.Stats gains and the page does not show is an error too.
func TestTheTextHasEachNumberOfASource(t *testing.T) {
	n, value := signals.Stats{}, int64(1000)
	var words []string
	of := reflect.ValueOf(&n).Elem()
	for i := range of.NumField() {
		value += 7
		switch v := of.Field(i); {
		case v.Type() == reflect.TypeFor[time.Duration]():
			v.SetInt(value * int64(time.Second))
			words = append(words, seconds(time.Duration(v.Int())))
		case v.CanInt():
			v.SetInt(value)
			words = append(words, fmt.Sprint(value))
		}
	}
	require.Len(t, words, 13)
	var text strings.Builder
	printView(&text, View{Signals: []SignalsView{{Stats: n}}})
	for _, word := range words {
		assert.Contains(t, text.String(), word)
	}
}

// TestARunnerIsShown has a source break before it stands: what the page then says comes from a real runner.
func TestARunnerIsShown(t *testing.T) {
	p := newFetches(t)
	hints, err := signals.To(p, signals.WithName("nats \u202e"), signals.WithBackoff(time.Hour, time.Hour))
	require.NoError(t, err)
	page := pageOf(p)
	t.Cleanup(page.Close)
	require.NoError(t, page.AddSignals(hints))
	v := page.view(nil)
	require.Len(t, v.Signals, 1)
	assert.Equal(t, "s-nats--", v.Signals[0].ID)
	assert.Equal(t, stateTrouble, v.Signals[0].State)
	assert.Contains(t, v.Signals[0].Notes[0].Text, "it does not run")

	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	broken := signals.SourceFunc[string](func(_ context.Context, sink signals.Sink[string]) error {
		sink.Missed(signals.ErrSubscribed)
		sink.Changed("orders", 1)
		return errors.New("10.0.0.7: \x1b[31m cut off")
	})
	go func() { ended <- hints.Run(ctx, broken) }()
	t.Cleanup(func() {
		stop()
		assert.ErrorIs(t, <-ended, context.Canceled)
	})
	require.Eventually(t, func() bool { return hints.Stats().Ends == 1 }, time.Minute, time.Millisecond)

	require.NoError(t, json.Unmarshal(get(t, page, "/?format=json").Body.Bytes(), &v))
	assert.True(t, v.Signals[0].Stats.Running)
	assert.False(t, v.Signals[0].Stats.Standing)
	assert.EqualValues(t, 1, v.Signals[0].Stats.Hints)
	assert.Contains(t, v.Signals[0].Notes[0].Text, "restarting: 10.0.0.7")
	assert.Empty(t, v.Purgatories[0].Notes)
	text := get(t, page, "/").Body.String()
	assert.Contains(t, text, `TROUBLE: restarting: 10.0.0.7: \x1b[31m cut off; no word since `)
	assert.Contains(t, text, `== hints from "nats \u202e"`)
	assert.NotContains(t, text, "\x1b")

	hidden := pageWith(Options{HideDetails: true}, p)
	require.NoError(t, hidden.AddSignals(hints))
	for _, format := range []string{"html", "json", "text"} {
		body := get(t, hidden, "/?format="+format).Body.String()
		assert.Contains(t, body, "restarting")
		assert.NotContains(t, body, "10.0.0.7")
	}

	require.Empty(t, page.view([]string{"fetches"}).Signals)
	require.Len(t, page.view([]string{"nats \u202e"}).Signals, 1)
	page.Remove(hints)
	assert.Empty(t, page.view(nil).Signals)
}

func TestWhatASourceIsBlindToIsADetail(t *testing.T) {
	for hide, says := range map[bool]string{false: "keys of bucket secret", true: "some changes"} {
		page := pageWith(Options{HideDetails: hide})
		require.NoError(t, page.AddSignals(&fixedSource{signals.Stats{Name: "a", Running: true, Standing: true, Blind: "keys of bucket secret"}}))
		for _, format := range []string{"html", "json", "text"} {
			body := get(t, page, "/?format="+format).Body.String()
			assert.Contains(t, body, "the engine sends no hint for "+says)
			assert.Equal(t, !hide, strings.Contains(body, "secret"))
		}
		page.Close()
	}
}

func TestSourcesInTroubleComeFirst(t *testing.T) {
	page := pageWith(Options{Idle: -1})
	t.Cleanup(page.Close)
	for _, n := range []signals.Stats{{Name: "a", Running: true, Standing: true}, {Name: "b"}, {Name: "a", Running: true}} {
		require.NoError(t, page.AddSignals(&fixedSource{n}))
	}
	v := page.view(nil)
	var ids []string
	for _, s := range v.Signals {
		ids = append(ids, s.ID+" "+s.State)
	}
	assert.Equal(t, []string{"s-b trouble", "s-a.2 look", "s-a ok"}, ids)
	for i := range 2 * history {
		page.sampleAll(noon.Add(time.Duration(i) * time.Second))
	}
	page.mu.Lock()
	assert.Len(t, page.mu.signals[0].samples, history)
	page.mu.Unlock()
}

// TestTheTextSaysWhetherASourceStands: the three states of a source, each on its line.
func TestTheTextSaysWhetherASourceStands(t *testing.T) {
	for want, n := range map[string]signals.Stats{
		"source  does not run, last word 3s ago; 0 ends, 0 gaps\n":   {SinceLastWord: 3 * time.Second},
		"source  does not stand, last word 3s ago; 2 ends, 1 gap\n":  {SinceLastWord: 3 * time.Second, Running: true, Ends: 2, Gaps: 1},
		"source  stands, last word 3s ago; 1 end, 2 gaps\n":          {SinceLastWord: 3 * time.Second, Running: true, Standing: true, Ends: 1, Gaps: 2},
		"source  does not run, last word 3s ago; 1 end, 1000 gaps\n": {SinceLastWord: 3 * time.Second, Standing: true, Ends: 1, Gaps: 1000},
	} {
		var text strings.Builder
		printView(&text, View{Signals: []SignalsView{{Stats: n}}})
		assert.Contains(t, text.String(), want)
	}
}
