// Package commitlog is a partition's log, in memory: record batches in offset
// order, and what is remembered of idempotent producers. A Log is not safe for
// concurrent use; the partition that owns it locks.
package commitlog

import (
	"sort"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Log is one replica's log. The zero value is an empty one.
type Log struct {
	batches    []Batch // without gaps: each begins where the one before ends
	positions  []int64 // of the batches, see Position
	start, end int64
	written    int64 // the position of the end
	producers  map[producerID]producer
}

// Start is the first offset kept.
func (l *Log) Start() int64 { return l.start }

// End is the offset that the next record gets.
func (l *Log) End() int64 { return l.end }

// Append adds the one batch in records as leader of epoch and returns the
// offsets it got. A batch that an idempotent producer sends a second time
// returns the offsets of the first.
func (l *Log) Append(records []byte, epoch int32) (base, end int64, err error) {
	b, rest, err := next(records)
	if err != nil {
		return 0, 0, err
	}
	if len(rest) > 0 {
		return 0, 0, kerr.InvalidRecord // since version 3 a request carries one batch per partition
	}
	if base, end, dup, err := l.producers[idOf(&b)].check(&b); dup || err != nil {
		return base, end, err
	}
	b.place(l.end, epoch)
	l.add(b)
	return b.FirstOffset, b.End(), nil
}

// Replicate adds batches as the leader wrote them.
func (l *Log) Replicate(records []byte) error {
	for len(records) > 0 {
		b, rest, err := next(records)
		if err != nil {
			return err
		}
		if b.FirstOffset != l.end {
			return kerr.OffsetOutOfRange
		}
		l.add(b)
		records = rest
	}
	return nil
}

func (l *Log) add(b Batch) {
	l.noteProducer(&b)
	l.batches, l.positions = append(l.batches, b), append(l.positions, l.written)
	l.end = b.End()
	l.written += int64(len(b.bytes))
}

// find is the index of the batch that holds offset.
func (l *Log) find(offset int64) int {
	return sort.Search(len(l.batches), func(i int) bool { return l.batches[i].End() > offset })
}

// Position says how many bytes the leader had written before the batch that holds
// offset. It grows with the log and does not shrink when old batches are dropped,
// so the bytes between two offsets are the difference of their positions.
func (l *Log) Position(offset int64) int64 {
	if i := l.find(offset); i < len(l.batches) {
		return l.positions[i]
	}
	return l.written
}

// Read returns the batches from the one that holds offset up to the offset
// below, as many as fit into limit bytes; atLeastOne, if it does not fit either.
func (l *Log) Read(offset, below int64, limit int, atLeastOne bool) []byte {
	records := []byte{}
	for _, b := range l.batches[l.find(offset):] {
		fits := len(records)+len(b.bytes) <= limit || (atLeastOne && len(records) == 0)
		if b.End() > below || !fits {
			break
		}
		records = append(records, b.bytes...)
	}
	return records
}

// Retain drops the oldest batches, none that ends above below, until what is
// kept is no larger than limit.
func (l *Log) Retain(limit int, below int64) {
	for len(l.batches) > 0 && int(l.written-l.positions[0]) > limit && l.batches[0].End() <= below {
		l.start = l.batches[0].End()
		l.batches[0] = Batch{}
		l.batches, l.positions = l.batches[1:], l.positions[1:]
	}
}

// Restart drops everything: the log goes on at offset.
func (l *Log) Restart(offset int64) { *l = Log{start: offset, end: offset} }
