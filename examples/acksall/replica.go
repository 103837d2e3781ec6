package main

import (
	"slices"
	"sync"
	"time"
)

// replica is one broker's copy of one partition, as leader or as follower. It is safe for concurrent use. Its methods never
// call a purgatory: what they return tells the caller whether waiting requests have to be looked at, and the caller does that
// with no lock held.
type replica struct {
	id     partition
	broker int

	mu struct {
		sync.Mutex
		records       []string // at offsets 0, 1, 2 and so on
		epoch         int      // counts the leaders of the partition
		highWatermark int64    // every in-sync replica has the records before it
		leadership    *leadership
	}
}

// leadership is what a leader knows of its followers while its epoch lasts. A follower has none. The replica's lock guards it.
type leadership struct {
	start     int64             // where the leader's log ended when its epoch began
	insync    map[int]bool      // the leader is always one of them
	followers map[int]*progress // all of them, in sync or not
}

// progress is how far one follower has come.
type progress struct {
	end       int64 // of its log, as its last fetch said
	fetchedAt time.Time
}

// lead makes this broker the leader, and returns where its log ends. A new leader gives every follower a full lag time.
func (r *replica) lead(epoch, replicas int, insync map[int]bool, now time.Time) (start int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := &leadership{start: int64(len(r.mu.records)), insync: insync, followers: make(map[int]*progress)}
	for id := range replicas {
		if id != r.broker {
			l.followers[id] = &progress{fetchedAt: now}
		}
	}
	r.mu.epoch, r.mu.leadership = epoch, l
	return l.start
}

// follow makes this broker a follower of a leader whose log ended at start when its epoch began. Records beyond that are the
// former leader's alone, and were never acknowledged. Before that, both logs are the beginning of the former leader's.
func (r *replica) follow(epoch int, start int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.epoch, r.mu.leadership = epoch, nil
	// A copy: a reader may still be sending the old one.
	r.mu.records = slices.Clone(r.mu.records[:min(start, int64(len(r.mu.records)))])
}

// resign ends this broker's leadership, if an in-sync follower can take over: the one that has come furthest. From here on
// nothing is appended or acknowledged until somebody leads.
func (r *replica) resign() (successor int, insync map[int]bool, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.mu.leadership
	if l == nil {
		return 0, nil, false
	}
	for id, p := range l.followers {
		if l.insync[id] && (!ok || p.end > l.followers[successor].end) {
			successor, ok = id, true
		}
	}
	if ok {
		r.mu.leadership = nil
	}
	return successor, l.insync, ok
}

// appended is where a leader put a record: what a produce waits for.
type appended struct {
	replica *replica
	epoch   int
	offset  int64
}

// append takes in a record as leader.
func (r *replica) append(value string) (appended, code) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.leadership == nil {
		return appended{}, notLeader
	}
	at := appended{replica: r, epoch: r.mu.epoch, offset: int64(len(r.mu.records))}
	r.mu.records = append(r.mu.records, value)
	r.moveHighWatermarkLocked() // if the leader is the only one in sync
	return at, none
}

// verdict says whether a produce need not wait for a record any longer, and with which code it ends.
func (r *replica) verdict(at appended) (c code, ended bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.leadership == nil || r.mu.epoch != at.epoch {
		return notLeader, true
	}
	return none, r.mu.highWatermark > at.offset
}

// end is the high watermark.
func (r *replica) end() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.highWatermark
}

// moveHighWatermarkLocked raises a leader's high watermark to the end of what every in-sync replica has.
func (r *replica) moveHighWatermarkLocked() (moved bool) {
	end := int64(len(r.mu.records))
	for id := range r.mu.leadership.insync {
		if id != r.broker {
			end = min(end, r.mu.leadership.followers[id].end)
		}
	}
	moved = end > r.mu.highWatermark
	r.mu.highWatermark = max(r.mu.highWatermark, end)
	return moved
}

// noteFetch takes from a fetch how far the follower has come. That may move the high watermark. It may also bring the follower
// into the in-sync set: it must have all before the high watermark and before the start of the epoch, since a new leader's high
// watermark may still be behind what its predecessor acknowledged.
func (r *replica) noteFetch(f fetchRequest, now time.Time) (joined, moved bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.mu.leadership
	if l == nil || f.Epoch != r.mu.epoch || l.followers[f.Follower] == nil {
		return false, false
	}
	*l.followers[f.Follower] = progress{f.Offset, now}
	joined = !l.insync[f.Follower] && f.Offset >= max(r.mu.highWatermark, l.start)
	if joined {
		l.insync[f.Follower] = true
	}
	return joined, r.moveHighWatermarkLocked()
}

// dropLagging takes followers out of the in-sync set that lack something and have not fetched for longer than lagTime.
func (r *replica) dropLagging(now time.Time, lagTime time.Duration) (dropped []int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.mu.leadership
	if l == nil {
		return nil
	}
	for id, p := range l.followers {
		if l.insync[id] && p.end < int64(len(r.mu.records)) && now.Sub(p.fetchedAt) > lagTime {
			delete(l.insync, id)
			dropped = append(dropped, id)
		}
	}
	r.moveHighWatermarkLocked()
	return dropped
}

// maxFetchRecords bounds what one fetch returns.
const maxFetchRecords = 1000

// read is the answer to a follower's fetch, and says whether it is worth sending: it has records, or it is a refusal.
func (r *replica) read(f fetchRequest) (answer fetchResponse, news bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.leadership == nil || f.Epoch != r.mu.epoch {
		return fetchResponse{Code: notLeader}, true
	}
	end := int64(len(r.mu.records))
	from := min(f.Offset, end)
	to := min(end, from+maxFetchRecords)
	return fetchResponse{HighWatermark: r.mu.highWatermark, Records: r.mu.records[from:to:to]}, from < to
}

// next is what this broker has to ask the leader of an epoch for; false when it does not follow in that epoch.
func (r *replica) next(epoch int) (fetchRequest, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := fetchRequest{Follower: r.broker, Partition: r.id, Epoch: epoch, Offset: int64(len(r.mu.records))}
	return f, r.mu.epoch == epoch && r.mu.leadership == nil
}

// apply takes in what the leader answered to a fetch. An answer of an epoch that is over changes nothing.
func (r *replica) apply(f fetchRequest, answer fetchResponse) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if answer.Code != none || r.mu.leadership != nil || f.Epoch != r.mu.epoch || f.Offset != int64(len(r.mu.records)) {
		return
	}
	r.mu.records = append(r.mu.records, answer.Records...)
	r.mu.highWatermark = max(r.mu.highWatermark, min(answer.HighWatermark, int64(len(r.mu.records))))
}
