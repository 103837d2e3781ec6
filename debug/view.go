package debug

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/queue"
	"github.com/delayedop/purgatory/signals"
	"github.com/delayedop/purgatory/watermark"
)

// View is what the page shows, and its JSON.
type View struct {
	Time        time.Time       `json:"time"`
	Hidden      bool            `json:"hidden"`      // keys, tenants and operations are
	Notes       []Note          `json:"notes"`       // about the process
	Purgatories []PurgatoryView `json:"purgatories"` // those in trouble first, as in the other lists
	Signals     []SignalsView   `json:"signals"`     // sources of hints
	Queues      []QueueView     `json:"queues"`      // lines of items
	Watermarks  []WatermarkView `json:"watermarks"`
	More        string          `json:"more"` // which option would show more; empty if none would
}

// PurgatoryView is a purgatory on the page.
type PurgatoryView = Shown[purgatory.Stats]

// SignalsView is a source of hints on the page. Its Stats.Err is nil: the notes have it.
type SignalsView = Shown[signals.Stats]

// QueueView is a line of items on the page. Of its tenants it has those that wait most.
type QueueView = Shown[queue.Stats]

// WatermarkView is a watermark on the page.
type WatermarkView = Shown[watermark.Stats]

// Shown is one of the things on the page. In the JSON, the numbers have the names of their Go fields, and durations are in nanoseconds.
type Shown[N any] struct {
	Name  string `json:"name"`
	ID    string `json:"id"`    // its anchor in the page
	State string `json:"state"` // "trouble", "look" or "ok": its worst note
	Notes []Note `json:"notes"` // the worst first

	Stats N `json:"stats"` // now
	// Before is what Stats was Seconds ago: four minutes, or when the page began to watch. Seconds is 0, and
	// Before has zeros, of what the page has only just begun to watch.
	Before  N       `json:"before"`
	Seconds float64 `json:"seconds"`

	History    []SampleView          `json:"history,omitempty"`    // of a purgatory
	Inspection *purgatory.Inspection `json:"inspection,omitempty"` // of a purgatory; nil if details are hidden
}

// SampleView is a moment of the last minutes.
type SampleView struct {
	Time    int64   `json:"time"` // Unix milliseconds
	Pending int64   `json:"pending"`
	Ended   []int64 `json:"ended"` // so far: satisfied, forced, expired, cancelled, closed
}

// view looks at every source, or at those of the given names if there are any. No lock is held while it looks.
func (p *Page) view(names []string) View {
	now, stalls := time.Now(), stalls{}
	v := View{Time: now, Hidden: p.opts.HideDetails}
	v.Purgatories = look(p, &p.mu.sources, "p-", names, now, func(s *source[purgatory.Stats], one *PurgatoryView) []Note {
		stalls.add(one.Name, s.samples, &one.Stats)
		if one.Stats.Waited == nil {
			v.More = "Not known: how long operations waited. WithDiagnostics counts it."
		}
		one.Before.Waited, one.History = nil, viewHistory(s.samples)
		in := s.of.(Source).Inspect(p.opts.Rows)
		if !v.Hidden {
			one.Inspection = &in
		} else {
			in = hidden(in)
		}
		return notes(&one.Stats, &in, windowOf(s.samples, now))
	})
	v.Signals = look(p, &p.mu.signals, "s-", names, now, func(s *source[signals.Stats], one *SignalsView) []Note {
		n := one.Stats
		if v.Hidden && n.Err != nil {
			n.Err = errHidden
		}
		if v.Hidden && n.Blind != "" { // it may have a bucket's name
			one.Stats.Blind, one.Before.Blind, n.Blind = "", "", "some changes"
		}
		one.Stats.Err, one.Before.Err = nil, nil
		return signalNotes(&n, &one.Before, s.samples, now)
	})
	v.Queues = look(p, &p.mu.queues, "q-", names, now, func(_ *source[queue.Stats], one *QueueView) []Note {
		all := queueNotes(&one.Stats, &one.Before, one.length(), v.Hidden)
		one.Stats.Tenants, one.Before.Tenants = p.tenants(one.Stats.Tenants), nil
		return all
	})
	v.Watermarks = look(p, &p.mu.watermarks, "w-", names, now, func(s *source[watermark.Stats], one *WatermarkView) []Note {
		before, length := since(s.samples, now, time.Minute)
		return watermarkNotes(&one.Stats, &before, length)
	})
	v.Notes = stalls.notes()
	return v
}

func (s *Shown[N]) length() time.Duration { return time.Duration(s.Seconds * float64(time.Second)) }

// look looks at each source of a list. Examine returns the notes about one.
func look[N any](p *Page, list *[]*source[N], prefix string, names []string, now time.Time, examine func(*source[N], *Shown[N]) []Note) []Shown[N] {
	all, ids := []Shown[N]{}, make(map[string]int)
	for _, s := range copyOf(p, list, now) {
		one := Shown[N]{Name: "(no name)"}
		if len(s.samples) > 0 { // if it panics now, these are the last that are known
			one.Stats = s.samples[len(s.samples)-1].stats
		}
		failure := guarded(func() { one.Stats = s.stats() })
		failure = cmp.Or(failure, guarded(func() { one.Name = strings.ToValidUTF8(s.name(&one.Stats), "\uFFFD") }))
		one.ID = anchor(prefix, one.Name, ids)
		if len(names) > 0 && !slices.Contains(names, one.Name) {
			continue
		}
		before, length := since(s.samples, now, history*interval)
		one.Before, one.Seconds = before, length.Seconds()
		failure = cmp.Or(failure, guarded(func() { one.Notes = examine(&s, &one) }))
		if failure != nil {
			one.Notes = failed(failure, p.opts.HideDetails)
		}
		one.State = state(one.Notes)
		all = append(all, one)
	}
	slices.SortStableFunc(all, func(a, b Shown[N]) int { return urgency(a.State) - urgency(b.State) })
	return all
}

// failed is the note about a source that panicked. What it panicked with may hold what clients have sent.
func failed(failure error, hidden bool) []Note {
	text := "its numbers are not known: the source panicked"
	if !hidden {
		text += ": " + failure.Error()
	}
	return []Note{{stateTrouble, text}}
}

// hidden returns what the notes may say of in.
func hidden(in purgatory.Inspection) purgatory.Inspection {
	in.Oldest, in.Unchecked, in.NeverTrue = nil, nil, nil
	for i := range in.Blocked {
		in.Blocked[i].Key = errHidden.Error()
	}
	in.Busiest = errHidden.Error()
	return in
}

// errHidden stands for what may name keys or addresses.
var errHidden = errors.New("(hidden)")

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

func viewHistory(samples []sample[purgatory.Stats]) []SampleView {
	all := make([]SampleView, len(samples))
	for i := range samples {
		n := &samples[i].stats
		all[i] = SampleView{Time: samples[i].at.UnixMilli(), Pending: n.Pending}
		for o := operation.Satisfied; o < operation.NumOutcomes; o++ {
			all[i].Ended = append(all[i].Ended, n.Ended(o))
		}
	}
	return all
}

// tenants returns those that wait most.
func (p *Page) tenants(all map[string]queue.Tenant) map[string]queue.Tenant {
	if p.opts.HideDetails {
		return nil
	}
	most := make(map[string]queue.Tenant)
	for _, name := range byWaiting(all)[:min(len(all), p.opts.Rows)] {
		most[strings.ToValidUTF8(name, "\uFFFD")] = all[name]
	}
	return most
}

// byWaiting returns the names of tenants, those that wait most first.
func byWaiting(all map[string]queue.Tenant) []string {
	return slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		return cmp.Or(cmp.Compare(all[b].Waiting, all[a].Waiting), cmp.Compare(all[b].Items, all[a].Items), cmp.Compare(a, b))
	})
}
