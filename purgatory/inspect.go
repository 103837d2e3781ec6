package purgatory

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/delayedop/purgatory/internal/guard"
	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/internal/observe"
	"github.com/delayedop/purgatory/internal/stats"
	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/timer"
	"github.com/delayedop/purgatory/watchers"
)

// Inspection shows which keys and operations a purgatory holds; [Stats] only counts them.
type Inspection struct {
	Wheels timer.Wheels // of the purgatory's timer, which may have other users

	// Hot are the keys with the most events (operations that began to wait, and tries),
	// and Expiring the keys with the most expiries, most first. Both are empty without
	// WithKeyStats. In Expiring, Watched, Tries and Wasted are counted only for a key that
	// is also among the busiest.
	Hot, Expiring []KeyReport

	// Oldest are the operations that have been waiting longest, oldest first, of a
	// sample. If few wait for each key, it is all of them. Otherwise it has the first operations
	// of some keys, and each call samples other keys. Looked is the number of entries of
	// watcher lists in the sample: an operation has one for each of its keys.
	Oldest []OperationReport
	Looked int
}

// KeyReport has the counts of a key since Since, when WithKeyStats began to count it.
type KeyReport struct {
	Key     string
	Since   time.Duration // on the timer's clock
	Waiting int           // operations that wait for it now
	Watched int64         // operations that began to wait for it
	Tries   int64         // of operations, by checks of the key
	Wasted  int64         // of Tries: TryComplete returned false
	Ended   [operation.NumOutcomes]int64
}

// OnlyTimeouts reports whether operations that waited for the key have expired and none
// was satisfied, forced or cancelled. Perhaps the server forgets to call CheckAndComplete
// for the key.
func (k *KeyReport) OnlyTimeouts() bool {
	return k.Ended[operation.Expired] > 0 && k.Ended[operation.Satisfied]+k.Ended[operation.Forced]+k.Ended[operation.Cancelled] == 0
}

// OperationReport is an operation that waits.
type OperationReport struct {
	Type string        // or "Await", "Wait"
	Text string        // what its String method returns; empty if it has none, or was being tried
	Key  string        // one of the keys that it waits for; empty if it waits without one
	Keys int           // the number of keys that it waits for
	Age  time.Duration // since it was registered
	Left time.Duration // until its timeout; negative if that has passed, [NoTimeout] if it never does
}

func untilTimeout(deadline, now time.Duration) time.Duration {
	if deadline == 0 || deadline >= timer.Never { // 0: the timer does not know it
		return NoTimeout
	}
	return deadline - now
}

// sampling is the size of the sample in which the oldest operations are searched.
const sampling = 1 << 12

// Inspect returns the state of the wheels, up to keys of the busiest keys and of those with
// the most expiries, and up to operations of the oldest operations. Its cost is bounded,
// however many operations wait.
//
// It holds no lock while it formats keys and operations. If an operation has a String
// method, that method runs as TryComplete does: it never overlaps the operation's other
// methods, and must neither block nor check: a check in order of its key waits for it. While such a check goes on, there is no
// text. If another goroutine asks meanwhile for the operation to be
// ended, Inspect does that, callbacks included; so do not call Inspect while you
// hold a lock that an operation's method takes. Texts are cut off after 200 bytes.
func (p *DelayedOperationPurgatory[K]) Inspect(keys, operations int) Inspection {
	p.made()
	in := Inspection{Wheels: timer.Inspect(p.timer)}
	if keys > 0 {
		var hot, expiring []stats.KeyCounts[K]
		for s := range p.watchers.Shards() {
			hot, expiring = s.Keys(hot, expiring)
		}
		keyless := func(c stats.KeyCounts[K]) bool { return c.Hash == p.watchers.NoKey }
		hot, expiring = slices.DeleteFunc(hot, keyless), slices.DeleteFunc(expiring, keyless)
		in.Hot = reports(hot, keys, func(c *stats.KeyCounts[K]) int64 { return c.Weight })
		in.Expiring = reports(expiring, keys, func(c *stats.KeyCounts[K]) int64 { return c.Ended[machine.Expired] })
	}
	if operations > 0 {
		in.Oldest, in.Looked = p.inspectOldest(operations)
	}
	return in
}

// reports returns reports of the n keys with the greatest weight, greatest first.
func reports[K comparable](counts []stats.KeyCounts[K], n int, weight func(*stats.KeyCounts[K]) int64) []KeyReport {
	slices.SortStableFunc(counts, func(a, b stats.KeyCounts[K]) int { return cmp.Compare(weight(&b), weight(&a)) })
	all := make([]KeyReport, min(n, len(counts)))
	for i := range all {
		c := &counts[i]
		all[i] = KeyReport{
			Key: observe.Key(c.Key), Since: c.Since, Waiting: c.Waiting,
			Watched: c.Watched, Tries: c.Tries, Wasted: c.Wasted, Ended: c.Ended,
		}
	}
	return all
}

func (p *DelayedOperationPurgatory[K]) inspectOldest(n int) ([]OperationReport, int) {
	shards := slices.Collect(p.watchers.Shards())
	perShard := max(sampling/max(len(shards), 1), 4)
	from := uint(p.samples.Add(1)) * uint(perShard)
	var sample []watchers.Sampled[K]
	for _, s := range shards {
		sample = s.Sample(sample, perShard, from)
	}
	slices.SortFunc(sample, func(a, b watchers.Sampled[K]) int { return cmp.Compare(a.Start, b.Start) })
	seen := make(map[*machine.Machine]bool) // an operation is in the sample once for each of its keys
	var all []OperationReport
	now := p.timer.Now()
	for i := range sample {
		w := &sample[i]
		if len(all) == n || seen[w.Machine] {
			continue
		}
		seen[w.Machine] = true
		// Read before the outcome: so that of an operation that waits is right. One that is about to end may have left
		// the timer, and then seems to have no timeout.
		keys, deadline := w.Machine.Keys(), p.timer.DeadlineOf(entryOf(w.Machine))
		if w.Machine.Outcome() != machine.Pending {
			continue
		}
		r := OperationReport{
			Type: observe.Kind(w.Machine.Operation()),
			Text: p.describe(w),
			Age:  now - w.Start,
			Left: untilTimeout(deadline, now),
		}
		if w.Hash != p.watchers.NoKey {
			r.Key, r.Keys = observe.Key(w.Key), keys
		}
		all = append(all, r)
	}
	return all, len(sample)
}

// describe returns the text of a waiting operation's String method. The caller is the
// operation's holder meanwhile, as for a try: String does not overlap the operation's
// other methods, and the release sees the marks that other goroutines set. It also has the turn of the
// key, so that no check in order passes over the operation. While such a check goes on there is no text.
func (p *DelayedOperationPurgatory[K]) describe(w *watchers.Sampled[K]) (text string) {
	m := w.Machine
	if _, ok := m.Operation().(fmt.Stringer); !ok {
		return ""
	}
	s := p.watchers.Shard(w.Hash)
	l, ok := s.Lock(w.Key, w.Hash)
	if !ok {
		return "" // it has ended
	}
	var turn watchers.Cursor[K]
	if _, _, ok = l.BeginTurn(&turn, nil); !ok {
		return ""
	}
	report, end := func() {}, machine.Pending
	if m.Hold(p.id) {
		text = observe.Text(m, func(v any, stack []byte) {
			blame := p.records.Blame(m, observe.Kind(m.Operation()), "String", w.Key)
			report = func() { guard.Report(v, stack, blame) }
		})
		end = p.release(m)
	}
	if turn.EndTurn() {
		p.signal(w.Key, w.Hash, EveryPosition, true)
	}
	if end != machine.Pending {
		p.endOne(watchers.ShardOf[K](m), m, end, nil, false)
	}
	report() // the handler may block
	return text
}
