package debug

import (
	"time"

	"github.com/delayedop/purgatory/operation"
)

// View is what the page shows, and its JSON. Durations are in seconds.
type View struct {
	Time        time.Time       `json:"time"`
	Hidden      bool            `json:"hidden"`      // keys and operations are
	Notes       []Note          `json:"notes"`       // about the process
	Purgatories []PurgatoryView `json:"purgatories"` // those in trouble first
	Signals     []SignalsView   `json:"signals"`     // sources of hints, those in trouble first
	Queues      []QueueView     `json:"queues"`      // lines of items, those in trouble first
	More        string          `json:"more"`        // which options would show more; empty if none would
}

// PurgatoryView is one purgatory.
type PurgatoryView struct {
	Name  string `json:"name"`
	ID    string `json:"id"`    // its anchor in the page
	State string `json:"state"` // "trouble", "look" or "ok": its worst note
	Notes []Note `json:"notes"` // the worst first

	Pending          int64            `json:"pending"`
	MaxPending       int64            `json:"max_pending"` // 0: no bound
	Watched          int64            `json:"watched"`
	Keys             int64            `json:"keys"`
	Stale            int64            `json:"stale"`
	Accepted         int64            `json:"accepted"`
	Ended            map[string]int64 `json:"ended"`
	Rejected         int64            `json:"rejected"`
	Rejections       RejectionsView   `json:"rejections"`
	Checks           int64            `json:"checks"`
	WastedChecks     int64            `json:"wasted_checks"`
	Signals          int64            `json:"signals"`
	Purged           int64            `json:"purged"`
	Panics           int64            `json:"panics"`
	PassedOver       int64            `json:"passed_over"`       // waits whose clients had gone when it was their turn
	TimeoutsExpected bool             `json:"timeouts_expected"` // WithTimeoutsExpected
	Running          int64            `json:"running"`           // callbacks that run now
	BlockedFor       float64          `json:"blocked_for"`       // that callbacks run and none returns
	CallbacksTimed   bool             `json:"callbacks_timed"`   // false: nothing is known of the next three
	OldestRunning    float64          `json:"oldest_running"`
	StuckCallbacks   int64            `json:"stuck_callbacks"`
	SlowCallbacks    int64            `json:"slow_callbacks"`
	Due              int64            `json:"due"` // expired operations that wait for a worker
	OldestDue        float64          `json:"oldest_due"`
	DueCapped        bool             `json:"due_capped"` // both are lower bounds
	ReaperStalls     int64            `json:"reaper_stalls"`

	Timed     bool                     `json:"timed"`
	OldestAge float64                  `json:"oldest_age"`
	Ages      HistogramView            `json:"ages"`
	Waited    map[string]HistogramView `json:"waited"` // since start
	Late      HistogramView            `json:"late"`   // since start

	Window   WindowView      `json:"window"`
	Rates    *RatesView      `json:"rates"` // null until there are two samples
	History  []SampleView    `json:"history"`
	Timer    TimerView       `json:"timer"`
	Hot      []KeyView       `json:"hot"`
	Expiring []KeyView       `json:"expiring"`
	Oldest   []OperationView `json:"oldest"`
	Looked   int             `json:"looked"` // watches among whose operations Oldest are the oldest
}

// RejectionsView says why operations were not accepted.
type RejectionsView struct {
	Closed int64 `json:"closed"`
	Full   int64 `json:"full"`
	Input  int64 `json:"input"`
}

// WindowView is what has happened lately: while the page watched, four minutes at most. A page that has only just begun to
// watch shows what has happened since the purgatory was made.
type WindowView struct {
	Seconds      float64       `json:"seconds"` // 0: since start
	Text         string        `json:"text"`    // "in the last 4 min"
	Expired      int64         `json:"expired"`
	Rejected     int64         `json:"rejected"`
	Checks       int64         `json:"checks"`
	WastedChecks int64         `json:"wasted_checks"`
	Panics       int64         `json:"panics"`
	PassedOver   int64         `json:"passed_over"`
	Slow         int64         `json:"slow_callbacks"`
	Stalls       int64         `json:"reaper_stalls"`
	Late         HistogramView `json:"late"`
}

// RatesView is what happens per second, over the last seconds.
type RatesView struct {
	Accepted float64 `json:"accepted"`
	Ended    float64 `json:"ended"`
	Expired  float64 `json:"expired"`
	Checks   float64 `json:"checks"`
}

// HistogramView is a histogram. It has one bound less than counts: the last count has no
// upper bound.
type HistogramView struct {
	Bounds []float64 `json:"bounds"`
	Counts []int64   `json:"counts"`
	Sum    float64   `json:"sum"`
}

// SampleView is a moment of the last minutes.
type SampleView struct {
	Time    int64 `json:"time"` // Unix milliseconds
	Pending int64 `json:"pending"`
	// Ended is how many operations ended per second since the sample before: satisfied, forced, expired, cancelled,
	// closed. The first sample has none.
	Ended []float64 `json:"ended_per_second"`
}

// TimerView is a purgatory's timer, which may have other users.
type TimerView struct {
	Tick    float64 `json:"tick"`
	Pending int     `json:"pending"`
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

	NoTimeout bool `json:"no_timeout"` // Left says nothing
}

// outcomes are those that an operation can end with, in the order of the samples.
func outcomes(yield func(operation.Outcome) bool) {
	for o := operation.Satisfied; o < operation.NumOutcomes; o++ {
		if !yield(o) {
			return
		}
	}
}
