package debug

import (
	"math"
	"time"

	"github.com/delayedop/purgatory/queue"
	"github.com/delayedop/purgatory/watermark"
)

// When a line deserves a note.
const (
	hogShare  = 0.8              // of those who wait, or of the items, are of one tenant,
	hogMany   = 20               // and there are so many
	stillLook = 30 * time.Second // that nothing was handed over
)

// queueNotes says what is remarkable about a line of items. Workers that wait for items, and give up, are no trouble.
func queueNotes(n, before *queue.Stats, length time.Duration, hidden bool) []Note {
	b := notebook{length: length}
	refused, putRefused := n.Refused-before.Refused, n.PutRefused-before.PutRefused
	switch {
	case refused > 0 && n.Waiting > 0 && n.Handed == before.Handed && length >= stillLook: // idle workers are refused by nobody
		b.trouble("the line stands still: %s, the longest for %s, nothing was handed over, and %s refused %s: do those who take put back?",
			count(int64(n.Waiting), "request waits", "requests wait"), seconds(n.Oldest), count(refused, "was", "were"), spanOf(length))
	case refused > 0:
		b.lately("full: %s refused %s, by WithMaxWaiting or by the timer's maximum", count(refused, "request was", "requests were"), spanOf(length))
	}
	if putRefused > 0 {
		b.lately("full: %s refused %s, by WithMaxItems", count(putRefused, "item was", "items were"), spanOf(length))
	}
	b.hog(n.Tenants, "requests that wait", refused > 0, hidden, func(t queue.Tenant) int { return t.Waiting })
	b.hog(n.Tenants, "items that are kept", putRefused > 0, hidden, func(t queue.Tenant) int { return t.Items })
	return b.sorted()
}

// hog says which of several tenants has most of a line. One that is alone is remarkable if the line is full: shares are fair, so those whom
// it hogs may hardly ever wait. A request that waits for several kinds counts for each, as in all.
func (b *notebook) hog(all map[string]queue.Tenant, what string, full, hidden bool, of func(queue.Tenant) int) {
	sum, most, hog := 0, 0, ""
	for name, t := range all {
		n := of(t)
		if sum += n; n > most {
			most, hog = n, name
		}
	}
	if alone := len(all) < 2; alone && (!full || hog == "") || sum < hogMany || float64(most) < hogShare*float64(sum) {
		return
	}
	if hog = quote(hog); hidden {
		hog = errHidden.Error()
	}
	b.look("tenant %s has %d of the %d %s", hog, most, sum, what)
}

// watermarkNotes says what is remarkable about a watermark in the last minute.
func watermarkNotes(n, before *watermark.Stats, length time.Duration) []Note {
	b := notebook{length: length}
	if refused := n.Refused - before.Refused; refused > 0 {
		b.lately("full: %s refused %s", count(refused, "wait was", "waits were"), spanOf(length))
	}
	if n.TimeoutsExpected {
		return b.sorted()
	}
	expired, left := n.Expired-before.Expired, n.Left-before.Left
	all := n.Served + n.Cancelled - before.Served - before.Cancelled + expired + left
	if share := float64(expired) / float64(max(all, 1)); length > 0 && expired >= fewExpired && share >= troubleShare {
		b.trouble("%.0f %% of the waits that ended %s have expired, %d of %d: does the position rise too slowly, or not at all? "+
			"If that is normal here, make the purgatory with WithTimeoutsExpected", math.Floor(100*share), spanOf(length), expired, all)
	}
	b.gaveUp(left, all, length)
	return b.sorted()
}
