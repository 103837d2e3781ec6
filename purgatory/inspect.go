package purgatory

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/internal/observe"
	"github.com/delayedop/purgatory/timer"
	"github.com/delayedop/purgatory/watchers"
)

// Inspection shows some of the operations and keys that a purgatory holds; [Stats] only counts them.
type Inspection struct {
	// Oldest are the operations that have been waiting longest, oldest first, of the Looked that stand first under each
	// key: 4,096 if there is one key, and fewer of each if there are more.
	Oldest []OperationReport
	Looked int

	// Blocked has the operation whose method has been running for longest, if there is one, and Age for how long: see
	// [Stats].BlockedFor. Its Type may be that of another operation under its key.
	Blocked []OperationReport

	// Unchecked and NeverTrue are some of the operations that have expired lately: those to which no check had come, and
	// those whose condition no check has found true.
	Unchecked, NeverTrue []ExpiryReport

	// Busiest is the key for which most operations wait, and Waiting how many.
	Busiest string
	Waiting int
}

// OperationReport is an operation.
type OperationReport struct {
	Type string        // "*purgatory.await" of an Await or a Wait
	Key  string        // one of the keys that it waits for
	Age  time.Duration // since it was registered
	Left time.Duration // until its timeout; negative if that has passed, [NoTimeout] if it never does, or the operation ends
}

// ExpiryReport is an operation that has expired.
type ExpiryReport struct {
	Type, Key string
	Age       time.Duration // when it expired
	Checks    int64         // of its first key since an operation waited for that
}

// sampling is the size of the sample in which the oldest operations are searched.
const sampling = 1 << 12

// Inspect returns up to n of the oldest operations, and what else [Inspection] has. It looks at every key. It calls no
// method of an operation, and formats keys, up to 200 bytes.
func (p *Purgatory[K]) Inspect(n int) (in Inspection) {
	t := p.watchers.Totals(0)
	if b := t.Blocked; b.For > 0 {
		in.Blocked = []OperationReport{{Type: b.Kind.String(), Key: observe.Key(b.Key), Age: b.For}}
	}
	if !p.cfg.timeoutsExpected {
		checked, unchecked := p.watchers.LastExpiries()
		in.NeverTrue, in.Unchecked = expired(checked), expired(unchecked)
	}
	var busiest watchers.Found[K]
	var sample []watchers.Found[K]
	byAge := func(a, b watchers.Found[K]) int { return cmp.Compare(a.Machine.Start(), b.Machine.Start()) }
	for f := range p.watchers.Each(max(1, sampling/max(1, t.Keys))) {
		if in.Looked++; f.Waiting > busiest.Waiting {
			busiest = f
		}
		if sample = append(sample, f); len(sample) == 2*sampling {
			slices.SortFunc(sample, byAge)
			sample = sample[:sampling]
		}
	}
	if in.Waiting = busiest.Waiting; in.Waiting > 0 {
		in.Busiest = observe.Key(busiest.Key)
	}
	slices.SortFunc(sample, byAge)
	now := p.cfg.timer.Now()
	seen := make(map[*machine.Machine]bool) // an operation is in the sample once for each of its keys
	for _, f := range sample {
		m := f.Machine
		if len(in.Oldest) >= n || seen[m] || m.Outcome() != machine.Pending {
			continue
		}
		seen[m] = true
		r := OperationReport{fmt.Sprintf("%T", m.Operation()), observe.Key(f.Key), now - m.Start(), NoTimeout}
		if at := p.entries.DeadlineOf(entryOf(m)); at > 0 && at < timer.Never { // 0: it is in no timer
			r.Left = at - now
		}
		in.Oldest = append(in.Oldest, r)
	}
	return in
}

// expired reports up to eight of the last expiries of the shards, the latest first.
func expired[K comparable](last []watchers.Seen[K]) (all []ExpiryReport) {
	slices.SortFunc(last, func(a, b watchers.Seen[K]) int { return cmp.Compare(b.At, a.At) })
	for _, e := range last {
		if e.Kind != nil && len(all) < 8 {
			all = append(all, ExpiryReport{e.Kind.String(), observe.Key(e.Key), e.For, int64(e.Checks)})
		}
	}
	return all
}
