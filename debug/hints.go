package debug

import (
	"fmt"
	"time"

	"github.com/delayedop/purgatory/signals"
)

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

// signalNotes says what is remarkable about a source of hints. While it does not stand, waits end by an audit or by
// their timeouts only.
func signalNotes(n, before *signals.Stats, samples []sample[signals.Stats], now time.Time) []Note {
	_, length := since(samples, now, history*interval)
	b, earlier := notebook{length: length}, int64(0) // hints that came a minute ago or longer
	for i := range samples {
		if length > 0 && now.Sub(samples[i].at) >= silentSoon {
			earlier = samples[i].stats.Hints - before.Hints
		}
	}
	silent, span := n.SinceLastWord, spanOf(length)
	word := fmt.Sprintf("no word since %s, for %s", now.Add(-silent).Format(time.TimeOnly), seconds(silent))
	switch {
	case !n.Running && n.Err != nil:
		b.trouble("it does not run: Run has not been called, or has returned; %s; last: %v", word, n.Err)
	case !n.Running:
		b.trouble("it does not run: Run has not been called, or has returned; %s", word)
	case !n.Standing && n.Ends > 0:
		b.trouble("restarting: %s; %s", reason(n.Err), word)
	case !n.Standing && silent > standsAfter:
		b.trouble("it has not subscribed yet, or does not hear itself; %s", word)
	case !n.Standing:
		b.look("it has not subscribed yet, or has yet to hear itself")
	case silent > silentSoon && earlier >= fewHints, silent > silentLate && n.Hints >= someHints:
		b.look("%s: is there nothing to say, or does the subscription hear nothing? WithAudit re-checks at intervals", word)
	}
	if ends, gaps := n.Ends-before.Ends, n.Gaps-before.Gaps; n.Standing && ends > 0 {
		b.look("it ended %s %s, last: %s", count(ends, "time", "times"), span, reason(n.Err))
	} else if gaps > 0 {
		b.look("%s %s: hints may have been lost, and all waits were re-checked", count(gaps, "gap", "gaps"), span)
	}
	if n.Reading > longRead {
		b.trouble("a bulk read has been in progress for %s; re-checks do not wait for it after its time limit, and go without", seconds(n.Reading))
	}
	if n.QueueUsed > fullQueue {
		b.trouble("the engine's queue of hints is full to %.0f %%: some subscriber takes nothing, and commits fail when it is full", 100*n.QueueUsed)
	}
	if n.Lag > 0 && n.Lag >= n.LagAllowed {
		b.look("a read was behind its hint by %s, and WithLag allows %s: waits whose reads lag so far are ended by audits; set WithLag to more than the lag",
			seconds(n.Lag), seconds(n.LagAllowed))
	}
	if n.Blind != "" {
		b.look("the engine sends no hint for %s: only audits end waits for that", n.Blind)
	}
	if failures := n.Failures - before.Failures; failures > 0 {
		b.lately("%s %s, and re-checks of their keys wait for them: see the log", count(failures, "bulk read failed", "bulk reads failed"), span)
	}
	return b.sorted()
}

func reason(err error) string {
	if err == nil {
		return "without an error"
	}
	return err.Error()
}
