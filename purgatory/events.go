package purgatory

import (
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/internal/observe"
)

// The messages of the records that go to the logger of [WithLogger]. Each has the attribute "purgatory", its name. Of
// each event, a purgatory logs at most ten records a second; the next one then has the attribute "suppressed", the number
// of those that were dropped.
const (
	// EventPanic ("purgatory.panic"): user code has panicked. Error: panic, stack; of an operation also operation (its
	// type), callback (the method) and key.
	EventPanic = observe.EventPanic
	// EventUnchecked: an operation has expired to which no check had come: perhaps a CheckAndComplete is missing.
	// Warn: operation (its type), key (its first), age.
	EventUnchecked = "purgatory.expired.unchecked"
	// EventStuck: a method of an operation has not returned for two seconds or longer, or those that one call runs have not
	// (see [Stats].BlockedFor), and then for twice as long as last logged. Warn: operation (its type, or that of another one under its key), key, elapsed.
	EventStuck = "purgatory.callback.stuck"
	// EventLate: an expired operation has been waiting for a worker for over a second: callbacks block the workers, or
	// there are too few. Logged once a second. Warn: due (how many, at least), elapsed (of the first); see [Stats].Due.
	EventLate = "purgatory.expiry.late"
	// EventClosed: the purgatory has closed. Info: closed (how many operations that has ended), left (how many are
	// pending), satisfied, forced, expired, cancelled (since New), elapsed.
	EventClosed = "purgatory.closed"
)

// counters is what the purgatory counts, beside its shards. Its words are not explored: each is read for itself, by
// Stats, or by sweeps, of which two at a time may both log.
type counters struct {
	refused    struct{ closed, full, input atomic.Int64 }
	passedOver atomic.Int64
	gaveUp     atomic.Int64
	stalls     atomic.Int64 // of the reaper
	looked     atomic.Int64 // when sweep last looked for what is to be logged, on the timer's clock
	stuckFor   atomic.Int64 // for how long a method had not returned when that was last logged; 0 if all return
	late       atomic.Int64 // when sweep last logged that expired operations wait
}

func (p *Purgatory[K]) noteExpired(m *machine.Machine, key K) {
	kind, age := fmt.Sprintf("%T", m.Operation()), m.Entry().Deadline()-m.Start() // now: a record that waits must not keep the operation in memory
	p.records.Log(slog.LevelWarn, EventUnchecked, func() []any {
		return []any{"operation", kind, "key", observe.Key(key), "age", age}
	})
}

func (p *Purgatory[K]) noteClosed(began time.Time) {
	if p.records.Logger == nil {
		return
	}
	t := p.watchers.Totals(0)
	p.records.Log(slog.LevelInfo, EventClosed, func() []any {
		return []any{
			"closed", t.Ended[machine.Closed], "left", t.Pending,
			"satisfied", t.Ended[machine.Satisfied], "forced", t.Ended[machine.Forced],
			"expired", t.Ended[machine.Expired], "cancelled", t.Ended[machine.Cancelled],
			"elapsed", time.Since(began),
		}
	})
}
