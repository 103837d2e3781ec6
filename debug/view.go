package debug

import (
	"time"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/timer"
)

// View is what the page shows, and its JSON. Durations are in seconds.
type View struct {
	Time        time.Time       `json:"time"`
	Hidden      bool            `json:"hidden"` // keys and operations are
	Purgatories []PurgatoryView `json:"purgatories"`
}

// PurgatoryView is one purgatory.
type PurgatoryView struct {
	Name         string           `json:"name"`
	Notes        []Note           `json:"notes"`
	Pending      int64            `json:"pending"`
	Watched      int64            `json:"watched"`
	Keys         int64            `json:"keys"`
	Stale        int64            `json:"stale"`
	Accepted     int64            `json:"accepted"`
	Ended        map[string]int64 `json:"ended"`
	Rejected     int64            `json:"rejected"`
	Checks       int64            `json:"checks"`
	WastedChecks int64            `json:"wasted_checks"`
	Signals      int64            `json:"signals"`
	Coalesced    int64            `json:"coalesced"`
	Purges       int64            `json:"purges"`
	Purged       int64            `json:"purged"`
	Panics       int64            `json:"panics"`

	Timed     bool                     `json:"timed"`
	OldestAge float64                  `json:"oldest_age"`
	Ages      HistogramView            `json:"ages"`
	Waited    map[string]HistogramView `json:"waited"`
	Late      HistogramView            `json:"late"`

	History  []SampleView    `json:"history"`
	Wheels   WheelsView      `json:"wheels"`
	Hot      []KeyView       `json:"hot"`
	Expiring []KeyView       `json:"expiring"`
	Oldest   []OperationView `json:"oldest"`
	Looked   int             `json:"looked"` // operations among which Oldest are the oldest
}

// HistogramView has one bound less than counts: the last count has none.
type HistogramView struct {
	Bounds []float64 `json:"bounds"`
	Counts []int64   `json:"counts"`
	Sum    float64   `json:"sum"`
}

// SampleView is a moment of the last minutes. Ended and checks count from the start.
type SampleView struct {
	Time    int64   `json:"time"` // Unix milliseconds
	Pending int64   `json:"pending"`
	Ended   []int64 `json:"ended"` // satisfied, forced, expired, cancelled, closed
	Checks  int64   `json:"checks"`
	Wasted  int64   `json:"wasted"`
}

// WheelsView is a purgatory's timer.
type WheelsView struct {
	Tick           float64     `json:"tick"`
	Pending        int         `json:"pending"`
	Due            int         `json:"due"`
	Young          int         `json:"young"` // in no slot yet
	YoungEstimated bool        `json:"youngEstimated"`
	Levels         []LevelView `json:"levels"`
}

// LevelView is one wheel.
type LevelView struct {
	Span      float64 `json:"span"` // of a slot
	Hand      int     `json:"hand"`
	Slots     []int   `json:"slots"`
	Estimated bool    `json:"estimated"` // some of them
}

// KeyView is a key.
type KeyView struct {
	Key          string           `json:"key"`
	Waiting      int              `json:"waiting"`
	Watched      int64            `json:"watched"`
	Tries        int64            `json:"tries"`
	Wasted       int64            `json:"wasted"`
	Ended        map[string]int64 `json:"ended"`
	OnlyTimeouts bool             `json:"only_timeouts"`
}

// OperationView is an operation that waits.
type OperationView struct {
	Type string  `json:"type"`
	Text string  `json:"text"`
	Key  string  `json:"key"`
	Keys int     `json:"keys"`
	Age  float64 `json:"age"`
	Left float64 `json:"left"`
}

// view looks at every source. No lock is held while it looks: operations describe
// themselves.
func (p *Page) view() View {
	p.mu.Lock()
	sources := make([]sampled, len(p.mu.sources))
	for i, s := range p.mu.sources {
		sources[i] = sampled{s.source, append([]sample(nil), s.samples...)}
	}
	p.mu.Unlock()
	v := View{Time: time.Now(), Hidden: p.opts.HideDetails, Purgatories: make([]PurgatoryView, 0, len(sources))}
	rows := p.opts.Rows
	if v.Hidden {
		rows = 0
	}
	for _, s := range sources {
		stats, in := s.source.Stats(), s.source.Inspect(rows, rows)
		one := viewOf(s.source.Name(), &stats, &in)
		one.Notes = notes(s.samples, &stats, &in)
		one.History = viewHistory(s.samples)
		v.Purgatories = append(v.Purgatories, one)
	}
	return v
}

func viewOf(name string, s *purgatory.Stats, in *purgatory.Inspection) PurgatoryView {
	v := PurgatoryView{
		Name: name, Pending: s.Pending, Watched: s.Watched, Keys: s.Keys, Stale: s.Stale, Accepted: s.Accepted,
		Ended: make(map[string]int64), Rejected: s.Rejected, Checks: s.Checks, WastedChecks: s.WastedChecks,
		Signals: s.Signals, Coalesced: s.Coalesced, Purges: s.Purges, Purged: s.Purged, Panics: s.Panics,
		Timed: s.Timed, OldestAge: s.OldestAge.Seconds(), Ages: viewHistogram(&s.Ages), Late: viewHistogram(&s.Late),
		Waited: make(map[string]HistogramView), Looked: in.Looked, Wheels: viewWheels(&in.Wheels),
		Hot: viewKeys(in.Hot), Expiring: viewKeys(in.Expiring), Oldest: []OperationView{},
	}
	for o := operation.Satisfied; o < operation.Outcomes; o++ {
		v.Ended[o.String()] = s.Ended(o)
		v.Waited[o.String()] = viewHistogram(&s.Waited[o])
	}
	for _, o := range in.Oldest {
		v.Oldest = append(v.Oldest, OperationView{
			Type: o.Type, Text: o.Text, Key: o.Key, Keys: o.Keys, Age: o.Age.Seconds(), Left: o.Left.Seconds(),
		})
	}
	return v
}

func viewHistogram(h *purgatory.Histogram) HistogramView {
	v := HistogramView{Counts: h.Counts[:], Sum: h.Sum, Bounds: make([]float64, purgatory.Buckets-1)}
	for i := range v.Bounds {
		v.Bounds[i] = h.Bound(i).Seconds()
	}
	return v
}

func viewHistory(samples []sample) []SampleView {
	all := make([]SampleView, len(samples))
	for i := range samples {
		s := &samples[i].stats
		all[i] = SampleView{
			Time: samples[i].at.UnixMilli(), Pending: s.Pending, Checks: s.Checks, Wasted: s.WastedChecks,
			Ended: []int64{s.Satisfied, s.Forced, s.Expired, s.Cancelled, s.Closed},
		}
	}
	return all
}

func viewWheels(w *timer.Wheels) WheelsView {
	v := WheelsView{Tick: w.Tick.Seconds(), Pending: w.Pending, Due: w.Due, Young: w.Young.Entries, YoungEstimated: w.Young.Estimated, Levels: []LevelView{}}
	for _, l := range w.Levels {
		lv := LevelView{Span: l.Span.Seconds(), Hand: l.Hand, Slots: make([]int, len(l.Slots))}
		for i, s := range l.Slots {
			lv.Slots[i] = s.Entries
			lv.Estimated = lv.Estimated || s.Estimated
		}
		v.Levels = append(v.Levels, lv)
	}
	return v
}

func viewKeys(keys []purgatory.KeyReport) []KeyView {
	all := make([]KeyView, len(keys))
	for i := range keys {
		k := &keys[i]
		all[i] = KeyView{
			Key: k.Key, Waiting: k.Waiting, Watched: k.Watched, Tries: k.Tries, Wasted: k.Wasted,
			Ended: make(map[string]int64), OnlyTimeouts: k.OnlyTimeouts(),
		}
		for o := operation.Satisfied; o < operation.Outcomes; o++ {
			if n := k.Ended[o]; n > 0 {
				all[i].Ended[o.String()] = n
			}
		}
	}
	return all
}
