package debug

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// view looks at every source, or at those of the given names if there are any. No lock is held while it looks:
// operations describe themselves.
func (p *Page) view(names []string) View {
	now := time.Now()
	sources := copyOf(p, &p.mu.sources, now)
	v := View{Time: now, Hidden: p.opts.HideDetails, Purgatories: make([]PurgatoryView, 0, len(sources))}
	rows := p.opts.Rows
	if v.Hidden {
		rows = 0
	}
	ids := make(map[string]int)
	seen := make([]sight, 0, len(sources))
	var stalled []string
	var stalls int64
	var length time.Duration
	for _, s := range sources {
		name := nameOf(s.source)
		id := anchor("p-", name, ids)
		if len(names) > 0 && !slices.Contains(names, name) {
			continue
		}
		var n purgatory.Stats
		var in purgatory.Inspection
		failure := guarded(func() { n, in = s.source.Stats(), s.source.Inspect(rows, rows) })
		if len(s.samples) > 0 && startedAgain(&s.samples[len(s.samples)-1].stats, &n) {
			s.samples = nil
		}
		w := windowOf(s.samples, &n, v.Time)
		if w.stalls > 0 {
			stalled, stalls, length = append(stalled, name), max(stalls, w.stalls), w.length
		}
		one := viewOf(name, &n, &in)
		one.ID = id
		one.Window, one.Rates, one.History = viewWindow(&w), viewRates(s.samples), viewHistory(s.samples)
		seen = append(seen, sight{one, n, in, w, failure})
	}
	for i := range seen {
		s := &seen[i]
		s.view.Notes = notes(&s.n, &s.w, &s.in, stalls > 0)
		if s.failure != nil {
			s.view.Notes = failed(s.failure, v.Hidden)
		}
		s.view.State = state(s.view.Notes)
		v.Purgatories = append(v.Purgatories, s.view)
	}
	v.Notes, v.More = pageNotes(stalled, stalls, spanOf(length)), more(seen, v.Hidden)
	slices.SortStableFunc(v.Purgatories, func(a, b PurgatoryView) int { return urgency(a.State) - urgency(b.State) })
	v.Signals, v.Queues = p.viewSignals(names, v.Time), p.viewQueues(names, v.Time)
	return v
}

// sight is what was seen of one purgatory.
type sight struct {
	view    PurgatoryView
	n       purgatory.Stats
	in      purgatory.Inspection
	w       window
	failure error
}

// more says which options would show more, and of which purgatories: once, at the foot of the page.
func more(all []sight, hidden bool) string {
	var names []string
	var histograms, keys, callbacks bool
	for i := range all {
		s := &all[i]
		uncounted := !hidden && s.n.Watched > 0 && len(s.in.Hot)+len(s.in.Expiring) == 0
		if s.failure == nil && (!s.n.Timed || !s.n.CallbacksTimed || uncounted) {
			names = append(names, s.view.Name)
			histograms, callbacks, keys = histograms || !s.n.Timed, callbacks || !s.n.CallbacksTimed, keys || uncounted
		}
	}
	var what []string
	for _, o := range []struct {
		off  bool
		what string
	}{
		{histograms, "ages, waits and lateness (WithHistograms)"},
		{keys, "which keys are busy, and which end only by timeout (WithKeyStats)"},
		{callbacks, "how long callbacks run (WithSlowCallback)"},
	} {
		if o.off {
			what = append(what, o.what)
		}
	}
	if len(what) == 0 {
		return ""
	}
	of := " of " + listed(names)
	if len(names) == len(all) {
		of = " here"
	}
	return "Not known" + of + ": " + strings.Join(what, "; ") + ". WithDiagnostics turns all of them on."
}

func urgency(state string) int {
	return slices.Index([]string{stateTrouble, stateLook, stateOK}, state)
}

// anchor returns a name's id in the page: the same whatever else is shown. Names that would get the same id are numbered.
func anchor(prefix, name string, taken map[string]int) string {
	id := prefix + strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || r == '.' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '-'
	}, name)
	free := id
	for taken[free] > 0 {
		taken[id]++ // the last number
		free = id + "." + strconv.Itoa(taken[id])
	}
	taken[free] = 1
	return free
}

func viewOf(name string, n *purgatory.Stats, in *purgatory.Inspection) PurgatoryView {
	v := PurgatoryView{
		Name: name, Pending: n.Pending, MaxPending: n.MaxPending, Watched: n.Watched, Keys: n.Keys, Stale: n.Stale,
		Accepted: n.Accepted, Ended: make(map[string]int64), Rejected: n.Rejected,
		Rejections: RejectionsView{Closed: n.RejectedClosed, Full: n.RejectedFull, Input: n.RejectedInput},
		Checks:     n.Checks, WastedChecks: n.WastedChecks, Signals: n.Signals,
		Purged: n.Purged, Panics: n.Panics,
		PassedOver: n.PassedOver, TimeoutsExpected: n.TimeoutsExpected, BlockedFor: n.BlockedFor.Seconds(),
		Running: n.Running, OldestRunning: n.OldestRunning.Seconds(), StuckCallbacks: n.StuckCallbacks, SlowCallbacks: n.SlowCallbacks,
		CallbacksTimed: n.CallbacksTimed, Due: n.Due, OldestDue: n.OldestDue.Seconds(), DueCapped: dueCapped(n), ReaperStalls: n.ReaperStalls,
		Timed: n.Timed, OldestAge: n.OldestAge.Seconds(), Ages: viewHistogram(&n.Ages), Late: viewHistogram(&n.Late),
		Waited: make(map[string]HistogramView), Looked: in.Looked, Timer: TimerView{Tick: in.Tick.Seconds(), Pending: in.Scheduled},
		Hot: viewKeys(in.Hot), Expiring: viewKeys(in.Expiring), Oldest: []OperationView{},
	}
	for o := range outcomes {
		v.Ended[o.String()] = n.Ended(o)
		v.Waited[o.String()] = viewHistogram(&n.Waited[o])
	}
	for _, o := range in.Oldest {
		v.Oldest = append(v.Oldest, OperationView{
			Type: o.Type, Text: o.Text, Key: o.Key, Keys: o.Keys, Age: o.Age.Seconds(), Left: o.Left.Seconds(), NoTimeout: o.Left == purgatory.NoTimeout,
		})
	}
	return v
}

func viewWindow(w *window) WindowView {
	return WindowView{
		Seconds: w.length.Seconds(), Text: w.name(), Expired: w.ended[operation.Expired], Rejected: w.rejected,
		Checks: w.checks, WastedChecks: w.wasted, Panics: w.panics, PassedOver: w.passedOver, Slow: w.slowCallbacks, Stalls: w.stalls, Late: viewHistogram(&w.late),
	}
}

func viewRates(samples []sample[purgatory.Stats]) *RatesView {
	r, known := ratesOf(samples)
	if !known {
		return nil
	}
	return &RatesView{Accepted: r.accepted, Ended: r.ended, Expired: r.expired, Checks: r.checks}
}

func viewHistogram(h *purgatory.Histogram) HistogramView {
	v := HistogramView{Counts: h.Counts[:], Sum: h.Sum, Bounds: make([]float64, purgatory.HistogramBuckets-1)}
	for i := range v.Bounds {
		v.Bounds[i] = h.Bound(i).Seconds()
	}
	return v
}

func viewHistory(samples []sample[purgatory.Stats]) []SampleView {
	all := make([]SampleView, len(samples))
	for i := range samples {
		all[i] = SampleView{Time: samples[i].at.UnixMilli(), Pending: samples[i].stats.Pending, Ended: []float64{}}
		if i == 0 {
			continue
		}
		for o := range outcomes {
			all[i].Ended = append(all[i].Ended, rate(&samples[i-1], &samples[i], func(n *purgatory.Stats) int64 { return n.Ended(o) }))
		}
	}
	return all
}

func viewKeys(keys []purgatory.KeyReport) []KeyView {
	all := make([]KeyView, len(keys))
	for i := range keys {
		k := &keys[i]
		all[i] = KeyView{
			Key: k.Key, Waiting: k.Waiting, Watched: k.Watched, Tries: k.Tries, Wasted: k.Wasted,
			Ended: make(map[string]int64), OnlyTimeouts: k.OnlyTimeouts(),
		}
		for o := range outcomes {
			if n := k.Ended[o]; n > 0 {
				all[i].Ended[o.String()] = n
			}
		}
	}
	return all
}
