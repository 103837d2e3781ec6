package debug

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

func writeText(w http.ResponseWriter, v View) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	printView(w, v)
}

func printView(w io.Writer, v View) {
	fmt.Fprintf(w, "%s at %s\n", count(int64(len(v.Purgatories)), "purgatory", "purgatories"), v.Time.Format(time.RFC3339))
	for _, n := range v.Notes {
		fmt.Fprintf(w, "%s: %s\n", strings.ToUpper(n.Level), oneLine(n.Text))
	}
	printOverview(w, v.Purgatories)
	for i := range v.Purgatories {
		printPurgatory(w, &v.Purgatories[i], v.Hidden)
	}
	for i := range v.Signals {
		printSignals(w, &v.Signals[i])
	}
	for i := range v.Queues {
		printQueue(w, &v.Queues[i])
	}
	if v.More != "" {
		fmt.Fprintf(w, "\n%s\n", oneLine(v.More))
	}
}

func printQueue(w io.Writer, q *QueueView) {
	fmt.Fprintf(w, "\n== line %s\n", quote(q.Name))
	for _, n := range q.Notes {
		fmt.Fprintf(w, "%s: %s\n", strings.ToUpper(n.Level), oneLine(n.Text))
	}
	fmt.Fprintf(w, "waiting %d, the longest for %s; %s kept\n", q.Waiting, seconds(q.Oldest), count(int64(q.Items), "item is", "items are"))
	fmt.Fprintf(w, "items   %d put, %d put back, %d handed over, %d refused\n", q.Put, q.Back, q.Handed, q.PutRefused)
	fmt.Fprintf(w, "requests %d served, %d expired, %d left, %d refused\n", q.Served, q.Expired, q.Left, q.Refused)
	for _, t := range q.Tenants {
		fmt.Fprintf(w, "tenant %s: %d wait, the longest for %s; %d items\n", quote(t.Name), t.Waiting, seconds(t.Oldest), t.Items)
	}
}

func printSignals(w io.Writer, s *SignalsView) {
	fmt.Fprintf(w, "\n== hints from %s\n", quote(s.Name))
	for _, n := range s.Notes {
		fmt.Fprintf(w, "%s: %s\n", strings.ToUpper(n.Level), oneLine(n.Text))
	}
	fmt.Fprintf(w, "source  %s, last word %s ago; %s, %s\n", standing(s), seconds(s.SinceLastWord),
		count(s.Ends, "end", "ends"), count(s.Gaps, "gap", "gaps"))
	fmt.Fprintf(w, "hints   %d, %d of them awaited by nobody; %d said again\n", s.Hints, s.Unawaited, s.Repeats)
	fmt.Fprintf(w, "checks  %s of everything, %d by audit; %s, %d of them failed\n",
		count(s.Rechecks, "re-check", "re-checks"), s.Audits, count(s.BulkReads, "bulk read", "bulk reads"), s.Failures)
	if s.Reading > 0 {
		fmt.Fprintf(w, "reading for %s\n", seconds(s.Reading))
	}
	if s.Lag > 0 {
		fmt.Fprintf(w, "reads   behind their hints by at most %s, WithLag allows %s\n", seconds(s.Lag), seconds(s.LagAllowed))
	}
	if s.Blind != "" {
		fmt.Fprintf(w, "no hint for %s\n", oneLine(s.Blind))
	}
	if s.QueueUsed != nil {
		fmt.Fprintf(w, "queue   of the engine full to %.1f %%\n", 100**s.QueueUsed)
	}
	if s.Error != "" {
		fmt.Fprintf(w, "last error %s\n", quote(s.Error))
	}
}

func standing(s *SignalsView) string {
	switch {
	case !s.Running:
		return "does not run"
	case !s.Standing:
		return "does not stand"
	}
	return "stands"
}

// oneLine is quote without the quotes, for a sentence that may hold what an engine has said.
func oneLine(s string) string { q := quote(s); return strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`) }

// printOverview prints a line for each purgatory, those in trouble first.
func printOverview(w io.Writer, all []PurgatoryView) {
	if len(all) == 0 {
		return
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "state\tpending\toldest\tended/s\texpired/s\t name")
	for i := range all {
		p := &all[i]
		oldest, ended, expired := unknown, unknown, unknown
		if p.Timed {
			oldest = seconds(p.OldestAge)
		}
		if p.Rates != nil {
			ended, expired = fmt.Sprintf("%.1f", p.Rates.Ended), fmt.Sprintf("%.1f", p.Rates.Expired)
		}
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%s\t %s\n", p.State, p.Pending, oldest, ended, expired, quote(p.Name))
	}
	_ = t.Flush()
}

func printPurgatory(w io.Writer, p *PurgatoryView, hidden bool) {
	fmt.Fprintf(w, "\n== %s\n", quote(p.Name))
	for _, n := range p.Notes {
		fmt.Fprintf(w, "%s: %s\n", strings.ToUpper(n.Level), oneLine(n.Text))
	}
	bound := ""
	if p.MaxPending > 0 {
		bound = fmt.Sprintf(" of at most %d", p.MaxPending)
	}
	fmt.Fprintf(w, "pending %d%s under %s, %s; %d accepted, %d rejected (%d closed, %d full, %d input)\n", p.Pending, bound,
		count(p.Keys, "key", "keys"), count(p.Watched, "watch", "watches"), p.Accepted, p.Rejected, p.Rejections.Closed, p.Rejections.Full, p.Rejections.Input)
	expected := ""
	if p.TimeoutsExpected {
		expected = " as expected"
	}
	fmt.Fprintf(w, "ended   %d satisfied, %d forced, %d expired%s, %d cancelled, %d closed; %s; %d passed over\n",
		p.Ended["satisfied"], p.Ended["forced"], p.Ended["expired"], expected, p.Ended["cancelled"], p.Ended["closed"],
		count(p.Panics, "panic", "panics"), p.PassedOver)
	running, stuck, slow, bound := unknown, unknown, unknown+" slow callbacks", atLeast(p.DueCapped)
	if p.CallbacksTimed {
		running, stuck = seconds(p.OldestRunning), strconv.FormatInt(p.StuckCallbacks, 10)
		slow = count(p.SlowCallbacks, "slow callback", "slow callbacks")
	}
	blocked := ""
	if p.BlockedFor > 0 {
		blocked = ", under some keys none has returned for " + seconds(p.BlockedFor)
	}
	fmt.Fprintf(w, "runs    %s%s, the oldest for %s, %s stuck; %s%d due, the oldest for %s%s; %s, %s\n",
		count(p.Running, "callback", "callbacks"), blocked, running, stuck, bound, p.Due, bound, seconds(p.OldestDue),
		slow, count(p.ReaperStalls, "reaper stall", "reaper stalls"))
	fmt.Fprintf(w, "checks  %d, %d of them wasted; %d signals; %d watches purged\n",
		p.Checks, p.WastedChecks, p.Signals, p.Purged)
	if p.Timed {
		fmt.Fprintf(w, "oldest  %s\n", seconds(p.OldestAge))
		printHistogram(w, "ages", p.Ages)
		for _, o := range []string{"satisfied", "forced", "expired", "cancelled", "closed"} {
			printHistogram(w, "wait time since start, "+o, p.Waited[o])
		}
		printHistogram(w, "lateness "+p.Window.Text, p.Window.Late)
	} else {
		fmt.Fprintln(w, "oldest  "+unknown)
	}
	fmt.Fprintf(w, "timer   %d entries, tick %s\n", p.Timer.Pending, seconds(p.Timer.Tick))
	if !hidden {
		printKeys(w, "hottest keys", p.Hot)
		printKeys(w, "keys with the most expiries", p.Expiring)
		printOldest(w, p)
	}
}

// unknown stands for a number that is not measured.
const unknown = "–"

func printHistogram(w io.Writer, name string, h HistogramView) {
	var line strings.Builder
	for i, n := range h.Counts {
		switch {
		case n == 0:
		case i < len(h.Bounds):
			fmt.Fprintf(&line, "  ≤%s %d", seconds(h.Bounds[i]), n)
		default:
			fmt.Fprintf(&line, "  more %d", n)
		}
	}
	if line.Len() > 0 {
		fmt.Fprintf(w, "%s:%s\n", name, line.String())
	}
}

func printKeys(w io.Writer, title string, keys []KeyView) {
	if len(keys) == 0 {
		return
	}
	fmt.Fprintf(w, "%s:\n", title)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "waiting\twatched\ttries\twasted\tsatisfied\texpired\tonly by timeout\t key")
	for _, k := range keys {
		only := ""
		if k.OnlyTimeouts {
			only = "yes"
		}
		fmt.Fprintf(t, "%d\t%d\t%d\t%d\t%d\t%d\t%s\t %s\n", k.Waiting, k.Watched, k.Tries, k.Wasted, k.Ended["satisfied"], k.Ended["expired"], only, quote(k.Key))
	}
	_ = t.Flush()
}

func printOldest(w io.Writer, p *PurgatoryView) {
	if len(p.Oldest) == 0 {
		return
	}
	if sample := int64(p.Looked); sample < p.Watched-p.Stale {
		fmt.Fprintf(w, "oldest of %d watches that were looked at, of %d; the oldest of all has waited ≥ %s:\n", sample, p.Watched, seconds(p.Oldest[0].Age))
	} else {
		fmt.Fprintln(w, "oldest operations:")
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, o := range p.Oldest {
		left := seconds(o.Left) + " left"
		if o.NoTimeout {
			left = "no timeout"
		}
		key := quote(o.Key)
		if o.Keys == 0 {
			key = "no key"
		}
		fmt.Fprintf(t, "  %s\t%s\t%s\t%s\t%s\n", seconds(o.Age), left, key, o.Type, quote(o.Text))
	}
	_ = t.Flush()
}

// quote shows what a client may have sent: in one line, and with nothing that a
// terminal would obey.
func quote(s string) string { return strconv.Quote(s) }

func seconds(s float64) string {
	d := time.Duration(s * float64(time.Second))
	switch {
	case d >= time.Hour || d <= -time.Hour:
		return d.Round(time.Minute).String()
	case d >= time.Second || d <= -time.Second:
		return d.Round(10 * time.Millisecond).String()
	}
	return d.Round(time.Microsecond).String()
}
