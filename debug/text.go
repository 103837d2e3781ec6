package debug

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/queue"
	"github.com/delayedop/purgatory/signals"
	"github.com/delayedop/purgatory/watermark"
)

func writeText(w http.ResponseWriter, v View) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	printView(w, v)
}

func printView(w io.Writer, v View) {
	fmt.Fprintf(w, "%s at %s\n", count(int64(len(v.Purgatories)), "purgatory", "purgatories"), v.Time.Format(time.RFC3339))
	printNotes(w, v.Notes)
	for i := range v.Purgatories {
		p := &v.Purgatories[i]
		fmt.Fprintf(w, "%7s  %s, %d pending\n", p.State, quote(p.Name), p.Stats.Pending)
	}
	printEach(w, "", v.Purgatories, func(p *PurgatoryView) { printPurgatory(w, p) })
	printEach(w, "hints from ", v.Signals, func(s *SignalsView) { printSignals(w, &s.Stats) })
	printEach(w, "line ", v.Queues, func(q *QueueView) { printQueue(w, &q.Stats) })
	printEach(w, "watermark ", v.Watermarks, func(m *WatermarkView) { printWatermark(w, &m.Stats) })
	if v.More != "" {
		fmt.Fprintf(w, "\n%s\n", v.More)
	}
}

func printEach[N any](w io.Writer, kind string, all []Shown[N], show func(*Shown[N])) {
	for i := range all {
		fmt.Fprintf(w, "\n== %s%s\n", kind, quote(all[i].Name))
		printNotes(w, all[i].Notes)
		show(&all[i])
	}
}

func printNotes(w io.Writer, notes []Note) {
	for _, n := range notes {
		fmt.Fprintf(w, "%s: %s\n", strings.ToUpper(n.Level), oneLine(n.Text))
	}
}

func printPurgatory(w io.Writer, p *PurgatoryView) {
	n := &p.Stats
	bound := ""
	if n.MaxPending > 0 {
		bound = fmt.Sprintf(" of at most %d", n.MaxPending)
	}
	fmt.Fprintf(w, "pending %d%s under %s; %d accepted, %d rejected (%d closed, %d full, %d input)\n", n.Pending, bound, count(n.Keys, "key", "keys"),
		n.Accepted, n.Rejected, n.RejectedClosed, n.RejectedFull, n.RejectedInput)
	fmt.Fprintf(w, "ended   %d satisfied, %d forced, %d expired (%d unchecked), %d cancelled, %d closed; %s\n",
		n.Satisfied, n.Forced, n.Expired, n.Unchecked, n.Cancelled, n.Closed, count(n.Panics, "panic", "panics"))
	fmt.Fprintf(w, "runs    %s, none has returned for %s; %d due, the oldest for %s; %s\n", count(n.Running, "callback", "callbacks"),
		seconds(n.BlockedFor), n.Due, seconds(n.OldestDue), count(n.ReaperStalls, "reaper stall", "reaper stalls"))
	fmt.Fprintf(w, "checks  %d, %d of them found nothing; %d signals; %d watches, %d stale, %d purged; %d gave up, %d passed over\n",
		n.Checks, n.WastedChecks, n.Signals, n.Watched, n.Stale, n.Purged, n.GaveUp, n.PassedOver)
	for o := operation.Satisfied; o < operation.NumOutcomes && n.Waited != nil; o++ {
		if h := &n.Waited[o]; h.Count() > 0 {
			fmt.Fprintf(w, "waited  %s: %d, half of them %s, 99 %% %s\n", o, h.Count(), upTo(h.Quantile(0.5)), upTo(h.Quantile(0.99)))
		}
	}
	if p.Inspection == nil || len(p.Inspection.Oldest) == 0 {
		return
	}
	if in := p.Inspection; int64(in.Looked) < n.Watched-n.Stale {
		fmt.Fprintf(w, "oldest of %d watches that were looked at, of %d; the oldest of all has waited ≥ %s:\n", in.Looked, n.Watched, seconds(in.Oldest[0].Age))
	} else {
		fmt.Fprintln(w, "oldest operations:")
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, o := range p.Inspection.Oldest {
		left := seconds(o.Left) + " left"
		if o.Left == purgatory.NoTimeout {
			left = "no timeout"
		}
		fmt.Fprintf(t, "  %s\t%s\t%s\t%s\n", seconds(o.Age), left, quote(o.Key), o.Type)
	}
	_ = t.Flush()
}

func upTo(d time.Duration) string {
	if d == math.MaxInt64 {
		return "longer than can be told"
	}
	return "≤ " + seconds(d)
}

func printSignals(w io.Writer, n *signals.Stats) {
	state := "stands"
	if !n.Running {
		state = "does not run"
	} else if !n.Standing {
		state = "does not stand"
	}
	fmt.Fprintf(w, "source  %s, last word %s ago; %s, %s\n", state, seconds(n.SinceLastWord), count(n.Ends, "end", "ends"), count(n.Gaps, "gap", "gaps"))
	fmt.Fprintf(w, "hints   %d, %d of them awaited by nobody; %d said again\n", n.Hints, n.Unawaited, n.Repeats)
	fmt.Fprintf(w, "checks  %s of everything, %d by audit; %s, %d of them failed; reading for %s\n",
		count(n.Rechecks, "re-check", "re-checks"), n.Audits, count(n.BulkReads, "bulk read", "bulk reads"), n.Failures, seconds(n.Reading))
	fmt.Fprintf(w, "reads   behind their hints by at most %s, WithLag allows %s\n", seconds(n.Lag), seconds(n.LagAllowed))
	if n.QueueUsed >= 0 {
		fmt.Fprintf(w, "queue   of the engine full to %.1f %%\n", 100*n.QueueUsed)
	}
}

func printQueue(w io.Writer, n *queue.Stats) {
	fmt.Fprintf(w, "waiting %d, the longest for %s; %s kept\n", n.Waiting, seconds(n.Oldest), count(int64(n.Items), "item is", "items are"))
	fmt.Fprintf(w, "items   %d put, %d put back, %d handed over, %d refused\n", n.Put, n.Back, n.Handed, n.PutRefused)
	fmt.Fprintf(w, "requests %d served, %d expired, %d left, %d refused\n", n.Served, n.Expired, n.Left, n.Refused)
	for _, name := range byWaiting(n.Tenants) {
		t := n.Tenants[name]
		fmt.Fprintf(w, "tenant %s: %d wait, the longest for %s; %d items\n", quote(name), t.Waiting, seconds(t.Oldest), t.Items)
	}
}

func printWatermark(w io.Writer, n *watermark.Stats) {
	fmt.Fprintf(w, "waiting %d, the longest for %s\n", n.Waiting, seconds(n.Oldest))
	fmt.Fprintf(w, "waits   %d served, %d expired, %d given up, %d cancelled, %d refused\n", n.Served, n.Expired, n.Left, n.Cancelled, n.Refused)
}

// quote shows what a client may have sent: in one line, and with nothing that a
// terminal would obey.
func quote(s string) string { return strconv.Quote(s) }

// oneLine is quote without the quotes, for a sentence that may hold what an engine has said.
func oneLine(s string) string { q := quote(s); return strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`) }
