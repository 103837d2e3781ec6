package main

import (
	"slices"
	"sync"
	"time"
)

// replica is one broker's copy of one partition, as leader or as follower. It is safe for concurrent use. Its methods hold
// its lock and may take the controller's under it; they never call a purgatory. What they return tells the caller
// whether waiting requests have to be looked at, and the caller does that with no lock held.
type replica struct {
	id         topicPartition
	broker     int
	everyone   []int // the brokers that hold a replica
	minInsync  int
	controller *controller

	mu struct {
		sync.Mutex
		log           appendLog
		epoch         int
		leader        int // who leads in this epoch, or nobody
		highWatermark int64
		leadership    *leadership // nil unless this broker leads
	}
}

// nobody leads between a leader's stepping down and the next one's taking over.
const nobody = -1

func newReplica(id topicPartition, broker int, everyone []int, minInsync int, c *controller) *replica {
	r := &replica{id: id, broker: broker, everyone: everyone, minInsync: minInsync, controller: c}
	r.mu.leader = nobody
	return r
}

// assume takes up the role that an assignment gives this broker: leader or follower.
func (r *replica) assume(a assignment, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.epoch, r.mu.leader, r.mu.leadership = a.epoch, a.leader, nil
	if a.leader == r.broker {
		r.mu.leadership = newLeadership(r.broker, r.mu.log.end(), r.everyone, a.insync, now)
	}
}

// resign ends this broker's leadership, if an in-sync follower can take over, and names that follower. From here on nothing
// is appended or acknowledged until somebody assumes the leadership.
func (r *replica) resign() (successor int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.leadership == nil {
		return nobody, false
	}
	successor, ok = r.mu.leadership.successor()
	if ok {
		r.mu.leader, r.mu.leadership = nobody, nil
	}
	return successor, ok
}

// appended is where a leader put a record: what a produce waits for.
type appended struct {
	replica *replica
	epoch   int
	offset  int64
}

// append takes in a record as leader. moved says whether the high watermark moved at once, as it does without followers.
func (r *replica) append(value string) (at appended, moved bool, c code) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.leadership == nil {
		return appended{}, false, notLeader
	}
	if len(r.mu.leadership.insync) < r.minInsync {
		return appended{}, false, notEnoughReplicas
	}
	at = appended{replica: r, epoch: r.mu.epoch, offset: r.mu.log.end()}
	r.mu.log.append(record{Epoch: r.mu.epoch, Value: value})
	return at, r.moveHighWatermarkLocked(), none
}

// verdict says whether a produce need not wait for a record any longer, and with which code it ends.
func (r *replica) verdict(at appended) (c code, ended bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.mu.leadership == nil || r.mu.epoch != at.epoch:
		return notLeader, true
	case r.mu.highWatermark <= at.offset:
		return none, false
	case len(r.mu.leadership.insync) < r.minInsync:
		return notEnoughReplicas, true // on all that are left, but these are too few
	}
	return none, true
}

func (r *replica) highWatermark() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.highWatermark
}

// moveHighWatermarkLocked raises the high watermark to the end of what every in-sync replica has.
func (r *replica) moveHighWatermarkLocked() (moved bool) {
	end := r.mu.leadership.replicatedUpTo(r.mu.log.end())
	if end <= r.mu.highWatermark {
		return false
	}
	r.mu.highWatermark = end
	return true
}

// noteFetch takes from a follower's fetch how far the follower has come. That may bring it into the in-sync set, and may move
// the high watermark.
func (r *replica) noteFetch(follower int, at fetchPosition, now time.Time) (joined, moved bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.mu.leadership
	if l == nil || at.Epoch != r.mu.epoch || r.divergedLocked(at) != nil || l.followers[follower] == nil {
		return false, false
	}
	l.fetched(follower, at.Offset, r.mu.log.end(), now)
	if l.mayJoin(follower, r.mu.highWatermark) {
		joined = r.setInsyncLocked(append(l.insyncIDs(), follower))
		l.followers[follower].caughtUpAt = now // with what is acknowledged; it has a full lag time to catch up with the rest
	}
	return joined, r.moveHighWatermarkLocked()
}

// dropLagging takes followers that have lagged for too long out of the in-sync set, which may move the high watermark.
func (r *replica) dropLagging(now time.Time, lagTime time.Duration) (dropped []int, moved bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.mu.leadership
	if l == nil {
		return nil, false
	}
	late := l.lagging(r.mu.log.end(), now, lagTime)
	stay := slices.DeleteFunc(l.insyncIDs(), func(id int) bool { return slices.Contains(late, id) })
	if len(late) == 0 || !r.setInsyncLocked(stay) {
		return nil, false
	}
	return late, r.moveHighWatermarkLocked()
}

// setInsyncLocked changes the in-sync set, when the controller agrees that this epoch still lasts.
func (r *replica) setInsyncLocked(insync []int) bool {
	slices.Sort(insync)
	if !r.controller.setInsync(r.id, r.mu.epoch, insync) {
		return false
	}
	clear(r.mu.leadership.insync)
	for _, id := range insync {
		r.mu.leadership.insync[id] = true
	}
	return true
}

// hasNews reports whether a fetch from a position would be answered with something now: records, or a refusal.
func (r *replica) hasNews(at fetchPosition) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.leadership == nil || at.Epoch != r.mu.epoch || at.Offset != r.mu.log.end() || r.divergedLocked(at) != nil
}

// read is the answer to a follower's fetch from a position, with at most limit records.
func (r *replica) read(at fetchPosition, limit int) fetched {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.leadership == nil || at.Epoch != r.mu.epoch {
		return fetched{Code: notLeader}
	}
	if end := r.divergedLocked(at); end != nil {
		return fetched{Diverged: end}
	}
	return fetched{HighWatermark: r.mu.highWatermark, Records: r.mu.log.read(at.Offset, limit)}
}

// divergedLocked compares a follower's log with this one by the epoch of its last record: where this log's records of that
// epoch end earlier, the follower holds what only a former leader had.
func (r *replica) divergedLocked(at fetchPosition) *epochEnd {
	if at.Offset == 0 {
		return nil
	}
	if end := r.mu.log.endOf(at.LastEpoch); end.Epoch != at.LastEpoch || end.End < at.Offset {
		return &end
	}
	return nil
}

// position is what this broker, following a leader, has to ask that leader for; false when it does not follow it.
func (r *replica) position(leader int) (fetchPosition, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.leader != leader || leader == r.broker {
		return fetchPosition{}, false
	}
	return fetchPosition{
		Partition: r.id,
		Epoch:     r.mu.epoch,
		Offset:    r.mu.log.end(),
		LastEpoch: r.mu.log.lastEpoch(),
	}, true
}

// apply takes in what the leader answered to a fetch from a position. An answer of an epoch that is over changes nothing.
func (r *replica) apply(at fetchPosition, f fetched) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f.Code != none || r.mu.leadership != nil || at.Epoch != r.mu.epoch || at.Offset != r.mu.log.end() {
		return
	}
	if f.Diverged != nil {
		// Cut back to where both logs agree: not beyond where this log's own records of that epoch end.
		r.mu.log.truncate(min(f.Diverged.End, r.mu.log.endOf(f.Diverged.Epoch).End))
		return
	}
	r.mu.log.append(f.Records...)
	r.mu.highWatermark = max(r.mu.highWatermark, min(f.HighWatermark, r.mu.log.end()))
}

// recordAt returns the record at an offset, if the log goes that far.
func (r *replica) recordAt(offset int64) (record, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if found := r.mu.log.read(offset, 1); found != nil {
		return found[0], true
	}
	return record{}, false
}
