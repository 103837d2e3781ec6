package purgatory

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/timer"
	"github.com/delayedop/purgatory/watchers"
)

// Inspection is a look into a purgatory, for people: what Stats cannot say.
type Inspection struct {
	Wheels timer.Wheels // of its timer, which others may share

	// Hot are the keys with the most going on (operations that began to wait, and
	// tries), and Expiring those with the most expiries, most first. Both are empty
	// without WithKeyStats. Of an expiring key Watched, Tries and Wasted are known only
	// if it is also among the busiest.
	Hot, Expiring []KeyReport

	// Oldest are the operations that have been waiting longest among the Looked
	// that were looked at: all that wait if there are few, else the first in line of
	// some keys, of others each time.
	Oldest []OperationReport
	Looked int
}

// KeyReport is what is known of a key since it was taken up among those that are
// told apart, at Since.
type KeyReport struct {
	Key     string
	Since   time.Duration // on the timer's clock
	Waiting int           // now
	Watched int64         // operations that began to wait for it
	Tries   int64         // of operations, because it was checked
	Wasted  int64         // of Tries: said no
	Ended   [operation.Outcomes]int64
}

// OnlyTimeouts reports whether operations that waited for the key have expired, and
// none has ended in another way: perhaps nobody calls CheckAndComplete for it.
func (k *KeyReport) OnlyTimeouts() bool {
	return k.Ended[operation.Expired] > 0 && k.Ended[operation.Satisfied]+k.Ended[operation.Forced]+k.Ended[operation.Cancelled] == 0
}

// OperationReport is an operation that waits.
type OperationReport struct {
	Type string
	Text string // what its String method says; empty if it has none, or was busy
	Key  string // one of those that it waits for
	Keys int    // how many they are
	Age  time.Duration
	Left time.Duration // until its timeout; negative: it is late; 0 too while it is being registered
}

// Limits of what Inspect returns and looks at.
const (
	maxText  = 200     // bytes of a key or an operation
	sampling = 1 << 12 // operations that are looked at to find the oldest
)

// Inspect returns a look into the purgatory: the wheels, as many keys of each kind as
// keys says, and as many of the oldest operations as operations says. Its cost is
// bounded, whatever is pending. No lock is held while keys and operations are
// formatted; an operation is held as for a check while its String method runs, so that
// it overlaps none of the operation's other methods, and needs no lock against them. It
// must not wait for anything; text is cut off after 200 bytes.
func (p *DelayedOperationPurgatory[K]) Inspect(keys, operations int) Inspection {
	in := Inspection{Wheels: timer.Inspect(p.timer)}
	if keys > 0 {
		in.Hot, in.Expiring = p.inspectKeys(keys)
	}
	if operations > 0 {
		in.Oldest, in.Looked = p.inspectOldest(operations)
	}
	return in
}

func (p *DelayedOperationPurgatory[K]) inspectKeys(n int) (hot, expiring []KeyReport) {
	var h, e []watchers.KeyCounts[K]
	shards := p.watchers.Shards()
	for i := range shards {
		h, e = shards[i].Keys(h, e)
	}
	h = top(h, n, func(c *watchers.KeyCounts[K]) int64 { return c.Weight })
	e = top(e, n, func(c *watchers.KeyCounts[K]) int64 { return c.Ended[operation.Expired] })
	return reports(h), reports(e)
}

// top returns the n with the greatest weight, greatest first.
func top[T any](all []T, n int, weight func(*T) int64) []T {
	slices.SortStableFunc(all, func(a, b T) int { return cmp.Compare(weight(&b), weight(&a)) })
	return all[:min(n, len(all))]
}

func reports[K comparable](counts []watchers.KeyCounts[K]) []KeyReport {
	all := make([]KeyReport, len(counts))
	for i := range counts {
		c := &counts[i]
		all[i] = KeyReport{
			Key: keyText(c.Key), Since: c.Since, Waiting: c.Waiting,
			Watched: c.Watched, Tries: c.Tries, Wasted: c.Wasted, Ended: c.Ended,
		}
	}
	return all
}

func (p *DelayedOperationPurgatory[K]) inspectOldest(n int) ([]OperationReport, int) {
	shards := p.watchers.Shards()
	perShard := max(sampling/len(shards), 4)
	turn := uint(p.turn.Add(1)) * uint(perShard)
	var sample []watchers.Waiting[K]
	for i := range shards {
		sample = shards[i].Sample(sample, perShard, turn)
	}
	slices.SortFunc(sample, func(a, b watchers.Waiting[K]) int { return cmp.Compare(a.Start, b.Start) })
	seen := make(map[*operation.Machine]bool, n) // one that waits for several keys may be there as often
	var all []OperationReport
	for i := range sample {
		w := &sample[i]
		if len(all) == n {
			break
		}
		if seen[w.Machine] {
			continue
		}
		seen[w.Machine] = true
		// In this order, and before String runs: an operation settles before it leaves the timer, so a deadline
		// that is 0 though it waits is one that its registration has not set yet.
		deadline := p.timer.DeadlineOf(w.Machine.Entry())
		if w.Machine.Outcome() != operation.Pending {
			continue
		}
		now := p.timer.Now()
		left := deadline - now
		if deadline == 0 {
			left = 0
		}
		all = append(all, OperationReport{
			Type: fmt.Sprintf("%T", w.Machine.Operation()),
			Text: p.describe(w),
			Key:  keyText(w.Key),
			Keys: w.Keys,
			Age:  now - w.Start,
			Left: left,
		})
	}
	return all, len(sample)
}

// keyText formats a key. A pointer is shown as such: what it points to may be
// written to at this moment.
func keyText(key any) string {
	if _, ok := key.(fmt.Stringer); !ok && reflect.ValueOf(key).Kind() == reflect.Pointer {
		return fmt.Sprintf("%T(%p)", key, key)
	}
	return cut(fmt.Sprint(key))
}

// cut returns valid UTF-8 of bounded length.
func cut(s string) string {
	if len(s) <= maxText {
		return strings.ToValidUTF8(s, "\uFFFD")
	}
	end := maxText
	for end > maxText-utf8.UTFMax && !utf8.RuneStart(s[end]) {
		end--
	}
	return strings.ToValidUTF8(s[:end], "\uFFFD") + "…"
}
