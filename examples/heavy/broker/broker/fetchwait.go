package broker

import (
	"fmt"
	"math"
	"time"

	"github.com/delayedop/purgatory/operation"
)

// fetchWait is one wait of a fetch. It waits at a position in bytes on each
// partition, so that of all the records that come only those that bring a
// partition to its position have the fetch looked at.
type fetchWait struct {
	operation.DelayedOperation
	*fetching
	until []int64 // by part: the position that ends this wait
}

// never is a position that no log reaches: a fetch waits there for a partition
// to move away, and for nothing else.
const never = math.MaxInt64 - 1

// wait answers the fetch when there is enough for it, and has it wait until there
// may be. A wait that ends may be followed by another: each of several partitions
// is given its share of the bytes that are missing, and when the first has it the
// rest is shared out anew.
func (f *fetching) wait() {
	until, enough := f.missing()
	if enough || f.deadline.IsZero() {
		f.answer(false)
		return
	}
	keys := []position{goneKey(f.conn)}
	for i, part := range f.parts {
		keys = append(keys, f.at(part, until[i]))
	}
	w := &fetchWait{fetching: f, until: until}
	if _, err := f.broker.fetches.TryCompleteElseWatchAt(w, time.Until(f.deadline), keys...); err != nil {
		f.answer(true) // closed: never accepted, so never completed
	}
}

// missing says for each partition how far it has to come before the fetch need be
// looked at again; or that there is enough, or something that will not get better
// by waiting.
func (f *fetching) missing() (until []int64, enough bool) {
	until = make([]int64, len(f.parts))
	room := make([]int64, len(f.parts)) // that a partition has left of its share of the response
	bytes, open := 0, int64(0)
	for i, part := range f.parts {
		if part.partition == nil {
			return nil, true
		}
		v := part.partition.view(part.FetchRequestTopicPartition, f.follower())
		if v.err != nil {
			return nil, true
		}
		until[i] = max(v.visible, v.position)
		limit := int64(f.limit(part, bytes))
		size := min(until[i]-v.position, limit)
		bytes += int(size)
		if room[i] = limit - size; room[i] > 0 {
			open++
		}
	}
	if len(f.parts) == 0 {
		return nil, true // of nothing there will never be more
	}
	missing := int64(min(int(f.req.MinBytes), f.maxBytes()) - bytes)
	if missing <= 0 {
		return nil, true
	}
	for i := range until {
		if room[i] <= 0 {
			until[i] = never
			continue
		}
		until[i] += min((missing+open-1)/open, room[i])
	}
	return until, false
}

// TryComplete says whether a partition has come to its position, or has become
// one that it is no use to wait for.
func (w *fetchWait) TryComplete() bool {
	if !w.conn.Open() {
		return true // it went between two waits
	}
	for i, part := range w.parts {
		v := part.partition.view(part.FetchRequestTopicPartition, w.follower())
		if v.err != nil || v.visible >= w.until[i] {
			return true
		}
	}
	return false
}

// OnComplete answers with what there is, however the wait ended, unless it ended
// well and there is not enough. A partition that has moved away says so itself; that
// the broker closes it cannot know.
func (w *fetchWait) OnComplete() {
	if w.Outcome() == operation.Satisfied {
		w.wait()
		return
	}
	w.answer(w.Outcome() == operation.Closed)
}

// OnExpiration does nothing: OnComplete has answered.
func (w *fetchWait) OnExpiration() {}

// String is what the debug page shows of a fetch that waits.
func (w *fetchWait) String() string {
	who, first := "a consumer", w.parts[0]
	if w.follower() {
		who = fmt.Sprintf("broker %d", w.req.ReplicaID)
	}
	return fmt.Sprintf("%s from %v offset %d and %d more", who, first.partition.topicPartition, first.FetchOffset, len(w.parts)-1)
}
