package main

import "sort"

// record is what a log holds: a value, and the epoch of the leader that took it in.
type record struct {
	Epoch int
	Value string
}

// epochEnd says that the records of an epoch end before an offset.
type epochEnd struct {
	Epoch int
	End   int64
}

// appendLog is one replica's log of one partition: records at offsets 0, 1, 2 and so on, with epochs that never fall.
// It is not safe for concurrent use; the replica's lock guards it.
type appendLog struct {
	records []record
}

// end is the offset that the next record will get.
func (l *appendLog) end() int64 { return int64(len(l.records)) }

// lastEpoch is the epoch of the newest record, -1 when there is none.
func (l *appendLog) lastEpoch() int {
	if len(l.records) == 0 {
		return -1
	}
	return l.records[len(l.records)-1].Epoch
}

func (l *appendLog) append(records ...record) {
	l.records = append(l.records, records...)
}

// read returns at most limit records from an offset on, none when the offset is at the end or beyond it.
// The caller must not change them; they never change themselves, truncate only cuts them off.
func (l *appendLog) read(from int64, limit int) []record {
	if from < 0 || from >= l.end() {
		return nil
	}
	to := min(l.end(), from+int64(limit))
	return l.records[from:to:to]
}

// endOf returns the newest epoch in the log that is not newer than the given one, and where its records end.
// A follower whose own log goes on beyond that end holds records that this log never had.
func (l *appendLog) endOf(epoch int) epochEnd {
	end := sort.Search(len(l.records), func(i int) bool { return l.records[i].Epoch > epoch })
	if end == 0 {
		return epochEnd{Epoch: -1}
	}
	return epochEnd{Epoch: l.records[end-1].Epoch, End: int64(end)}
}

// truncate cuts off everything from an offset on. What is cut is copied away from, not written over: a reader may
// still be sending it.
func (l *appendLog) truncate(end int64) {
	if end >= l.end() {
		return
	}
	l.records = append([]record(nil), l.records[:end]...)
}
