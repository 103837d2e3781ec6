package debug

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/delayedop/purgatory/signals"
)

// SignalSource is a source of hints from other processes: a *signals.Runner[K] of any K.
type SignalSource interface {
	Stats() signals.Stats
}

// AddSignals shows one more source of hints. Error: [ErrNilSource].
func (p *Page) AddSignals(s SignalSource) error { return add(p, &p.mu.signals, s) }

// RemoveSignals removes s from the page, which then does not refer to it: see [Page.Remove].
func (p *Page) RemoveSignals(s SignalSource) { remove(p, &p.mu.signals, s) }

// SignalsView is one source of hints. Durations are in seconds.
type SignalsView struct {
	Name  string `json:"name"`
	ID    string `json:"id"`    // its anchor in the page
	State string `json:"state"` // "trouble", "look" or "ok": its worst note
	Notes []Note `json:"notes"`

	Running       bool     `json:"running"`
	Standing      bool     `json:"standing"`
	Hints         int64    `json:"hints"`
	Unawaited     int64    `json:"unawaited"`
	Gaps          int64    `json:"gaps"`
	Repeats       int64    `json:"repeats"`
	Audits        int64    `json:"audits"`
	Rechecks      int64    `json:"rechecks"`
	BulkReads     int64    `json:"bulk_reads"`
	Failures      int64    `json:"failures"`
	Ends          int64    `json:"ends"`
	SinceLastWord float64  `json:"since_last_word"`
	Reading       float64  `json:"reading"`    // how long the bulk read in progress has been running; 0: there is none
	QueueUsed     *float64 `json:"queue_used"` // of the engine's queue, from 0 to 1; null if the source does not say
	Lag           float64  `json:"lag"`        // how long after a hint a read was still behind it, at most
	LagAllowed    float64  `json:"lag_allowed"`
	Blind         string   `json:"blind"` // which changes the engine sends no hints for; empty: none that the source knows of
	Error         string   `json:"error"` // what the source ended with last; empty if details are hidden

	Rate   *float64          `json:"hints_per_second"` // over the last seconds; null until there are two samples
	Window SignalsWindowView `json:"window"`
}

// SignalsWindowView is what has happened lately, as WindowView is of a purgatory.
type SignalsWindowView struct {
	Seconds  float64 `json:"seconds"` // 0: since start
	Text     string  `json:"text"`
	Hints    int64   `json:"hints"`
	Gaps     int64   `json:"gaps"`
	Failures int64   `json:"failures"`
	Ends     int64   `json:"ends"`
}

// hearing is what a source of hints has said lately.
type hearing struct {
	window
	hints, gaps, failures, ends int64
	earlier                     int64 // of hints: a minute ago or longer
}

// When silence deserves a note. A topic may be quiet, so it is nothing but a reason to look.
const (
	silentSoon  = time.Minute // of a source that has just been talking,
	silentLate  = 5 * time.Minute
	fewHints    = 10  // before which it has not been talking
	someHints   = 100 // since start
	standsAfter = 10 * time.Second
	longRead    = 30 * time.Second // the default time limit of a bulk read
	fullQueue   = 0.25
)

func hearingOf(samples []sample[signals.Stats], n *signals.Stats, now time.Time) hearing {
	var h hearing
	before, length := windowStart(samples, now)
	h.length = length
	for i := range samples {
		if h.length > 0 && now.Sub(samples[i].at) >= silentSoon {
			h.earlier = samples[i].stats.Hints - before.Hints
		}
	}
	h.hints, h.gaps = n.Hints-before.Hints, n.Gaps-before.Gaps
	h.failures, h.ends = n.Failures-before.Failures, n.Ends-before.Ends
	return h
}

// hintRate returns how many hints came per second, over the last seconds; nil if there are not two samples.
func hintRate(samples []sample[signals.Stats]) *float64 {
	first, last := lastSeconds(samples)
	if first == nil {
		return nil
	}
	r := rate(first, last, func(n *signals.Stats) int64 { return n.Hints })
	return &r
}

// signalNotes says what is remarkable about a source of hints. While it does not stand, waits end by an audit or by
// their timeouts only.
func signalNotes(n *signals.Stats, h *hearing, now time.Time) []Note {
	b := notebook{w: &h.window, all: []Note{}}
	silent := n.SinceLastWord
	word := fmt.Sprintf("no word since %s, for %s", now.Add(-silent).Format(time.TimeOnly), seconds(silent.Seconds()))
	switch {
	case !n.Running:
		b.trouble("it does not run: Run has not been called, or has returned; %s%s", word, finalOf(n.Err))
	case !n.Standing && n.Ends > 0:
		b.trouble("restarting: %s; %s", reason(n.Err), word)
	case !n.Standing && silent > standsAfter:
		b.trouble("it has not subscribed yet, or does not hear itself; %s", word)
	case !n.Standing:
		b.look("it has not subscribed yet, or has yet to hear itself")
	case silent > silentSoon && h.earlier >= fewHints, silent > silentLate && n.Hints >= someHints:
		b.look("%s: is there nothing to say, or does the subscription hear nothing? WithAudit re-checks at intervals", word)
	}
	if n.Standing && h.ends > 0 {
		b.look("it ended %s %s, last: %s", count(h.ends, "time", "times"), b.span(), reason(n.Err))
	} else if h.gaps > 0 {
		b.look("%s %s: hints may have been lost, and all waits were re-checked", count(h.gaps, "gap", "gaps"), b.span())
	}
	if n.Reading > longRead {
		b.trouble("a bulk read has been in progress since %s, for %s; re-checks do not wait for it after its time limit, and go without",
			now.Add(-n.Reading).Format(time.TimeOnly), seconds(n.Reading.Seconds()))
	}
	if n.QueueUsed > fullQueue {
		b.trouble("the engine's queue of hints is full to %.0f %%: some subscriber takes nothing, and commits fail when it is full", 100*n.QueueUsed)
	}
	if n.Lag > 0 && n.Lag >= n.LagAllowed {
		b.look("a read was behind its hint by %s, and WithLag allows %s: waits whose reads lag so far are ended by audits; set WithLag to more than the lag",
			seconds(n.Lag.Seconds()), seconds(n.LagAllowed.Seconds()))
	}
	if n.Blind != "" {
		b.look("the engine sends no hint for %s: only audits end waits for that", n.Blind)
	}
	if h.failures > 0 {
		b.lately("%s %s, and re-checks of their keys wait for them: see the log", count(h.failures, "bulk read failed", "bulk reads failed"), b.span())
	}
	return b.sorted()
}

func reason(err error) string {
	if err == nil {
		return "without an error"
	}
	return err.Error()
}

// finalOf says what a runner that does not run ended with, if that was an error.
func finalOf(err error) string {
	if err == nil {
		return ""
	}
	return "; last: " + err.Error()
}

func viewOfSignals(n *signals.Stats) SignalsView {
	v := SignalsView{
		Name: n.Name, Running: n.Running, Standing: n.Standing, Hints: n.Hints, Unawaited: n.Unawaited, Gaps: n.Gaps,
		Audits: n.Audits, Rechecks: n.Rechecks, BulkReads: n.BulkReads, Failures: n.Failures, Ends: n.Ends,
		Repeats: n.Repeats, SinceLastWord: n.SinceLastWord.Seconds(), Reading: n.Reading.Seconds(),
		Lag: n.Lag.Seconds(), LagAllowed: n.LagAllowed.Seconds(), Blind: n.Blind,
	}
	if n.QueueUsed >= 0 {
		v.QueueUsed = &n.QueueUsed
	}
	if n.Err != nil {
		v.Error = n.Err.Error()
	}
	return v
}

// viewSignals looks at every source of hints, or at those of the given names if there are any.
func (p *Page) viewSignals(names []string, now time.Time) []SignalsView {
	all := copyOf(p, &p.mu.signals, now)
	views, ids := make([]SignalsView, 0, len(all)), make(map[string]int)
	for _, s := range all {
		var n signals.Stats
		failure := guarded(func() { n = s.source.Stats() })
		n.Name = strings.ToValidUTF8(n.Name, "\uFFFD")
		if len(s.samples) > 0 && failure != nil {
			n.Name = strings.ToValidUTF8(s.samples[0].stats.Name, "\uFFFD")
		}
		if len(s.samples) > 0 && ranAnew(&s.samples[len(s.samples)-1].stats, &n) {
			s.samples = nil
		}
		id := anchor("s-", n.Name, ids)
		if len(names) > 0 && !slices.Contains(names, n.Name) {
			continue
		}
		if p.opts.HideDetails {
			if n.Err != nil {
				n.Err = errHidden
			}
			if n.Blind != "" {
				n.Blind = "some changes" // it may have a bucket's name
			}
		}
		h := hearingOf(s.samples, &n, now)
		v := viewOfSignals(&n)
		v.ID, v.Notes, v.Rate = id, signalNotes(&n, &h, now), hintRate(s.samples)
		if failure != nil {
			v.Notes = failed(failure, p.opts.HideDetails)
		}
		v.State = state(v.Notes)
		v.Window = SignalsWindowView{
			Seconds: h.length.Seconds(), Text: h.name(), Hints: h.hints, Gaps: h.gaps, Failures: h.failures, Ends: h.ends,
		}
		views = append(views, v)
	}
	slices.SortStableFunc(views, func(a, b SignalsView) int { return urgency(a.State) - urgency(b.State) })
	return views
}

// errHidden stands for an error that may name addresses.
var errHidden = hiddenError{}

type hiddenError struct{}

func (hiddenError) Error() string { return "(error hidden)" }
