package main

import (
	"maps"
	"slices"
	"time"
)

// leadership is what a leader knows of its followers while its epoch lasts: how far each has come, and which of them are
// in sync. It reads no clock and takes no lock; the replica's lock guards it.
type leadership struct {
	leader     int
	epochStart int64        // where the leader's log ended when it became leader
	insync     map[int]bool // the leader is always one of them
	followers  map[int]*progress
}

// progress is how far one follower has come.
type progress struct {
	end        int64     // the end of its log, as its last fetch said: all before it is on the follower
	caughtUpAt time.Time // the last moment of which is known that it had everything the leader had then

	lastFetchAt  time.Time
	endLastFetch int64 // the end of the leader's log at the last fetch
}

func newLeadership(leader int, epochStart int64, replicas, insync []int, now time.Time) *leadership {
	l := &leadership{
		leader:     leader,
		epochStart: epochStart,
		insync:     make(map[int]bool),
		followers:  make(map[int]*progress),
	}
	for _, id := range insync {
		l.insync[id] = true
	}
	for _, id := range replicas {
		if id != leader {
			// A new leader gives everybody a full lag time from now on to show up.
			l.followers[id] = &progress{caughtUpAt: now}
		}
	}
	return l
}

// fetched notes that a follower asked for the records from an offset on, which says that it has all before.
func (l *leadership) fetched(follower int, offset, leaderEnd int64, now time.Time) {
	p := l.followers[follower]
	p.end = offset
	switch {
	case offset >= leaderEnd:
		p.caughtUpAt = now
	case offset >= p.endLastFetch && !p.lastFetchAt.IsZero():
		// It is behind now, but it has all that there was at its last fetch: it keeps up with the load.
		p.caughtUpAt = p.lastFetchAt
	}
	p.lastFetchAt, p.endLastFetch = now, leaderEnd
}

// mayJoin reports whether a follower outside the in-sync set has come far enough to be in it: up to the high watermark,
// and into the leader's own epoch, since a new leader's high watermark may still be behind what its predecessor
// acknowledged.
func (l *leadership) mayJoin(follower int, highWatermark int64) bool {
	return !l.insync[follower] && l.followers[follower].end >= max(highWatermark, l.epochStart)
}

// lagging lists the in-sync followers that lack something, and have not caught up for longer than lagTime.
func (l *leadership) lagging(leaderEnd int64, now time.Time, lagTime time.Duration) []int {
	var late []int
	for id, p := range l.followers {
		if l.insync[id] && p.end < leaderEnd && now.Sub(p.caughtUpAt) > lagTime {
			late = append(late, id)
		}
	}
	slices.Sort(late)
	return late
}

// replicatedUpTo is the end of what every in-sync replica has.
func (l *leadership) replicatedUpTo(leaderEnd int64) int64 {
	end := leaderEnd
	for id := range l.insync {
		if id != l.leader {
			end = min(end, l.followers[id].end)
		}
	}
	return end
}

// successor is the in-sync follower that has come furthest, the one with the lowest id among equals.
func (l *leadership) successor() (int, bool) {
	best, found := 0, false
	for _, id := range l.insyncIDs() {
		if id != l.leader && (!found || l.followers[id].end > l.followers[best].end) {
			best, found = id, true
		}
	}
	return best, found
}

func (l *leadership) insyncIDs() []int {
	return slices.Sorted(maps.Keys(l.insync))
}
