package commitlog

import (
	"math"

	"github.com/twmb/franz-go/pkg/kerr"
)

// remembered is how many of a producer's last batches are known again: a
// producer has at most five unanswered.
const remembered = 5

// producer is what the log knows of an idempotent producer: its last batches, oldest
// first. Followers learn it from the batches, so that a new leader knows as much as the
// old one.
type producer []sequence

// producerID has its epoch in it: in a new one a producer begins anew.
type producerID struct {
	id    int64
	epoch int16
}

func idOf(b *Batch) producerID { return producerID{b.ProducerID, b.ProducerEpoch} }

type sequence struct {
	first, last int32
	base, end   int64
}

func sequenceOf(b *Batch) sequence {
	// Sequences wrap from the largest int32 to zero.
	last := int32((int64(b.FirstSequence) + int64(b.NumRecords) - 1) & math.MaxInt32)
	return sequence{b.FirstSequence, last, b.FirstOffset, b.End()}
}

// check says what to do with a producer's next batch: append it, or answer
// with the offsets that it got the first time, or refuse it. Of a producer
// that the log has never seen, in this epoch, any sequence is taken.
func (p producer) check(b *Batch) (base, end int64, dup bool, err error) {
	next := sequenceOf(b)
	if len(p) == 0 || next.first == (p[len(p)-1].last+1)&math.MaxInt32 {
		return 0, 0, false, nil
	}
	for _, s := range p {
		if s.first == next.first && s.last == next.last {
			return s.base, s.end, true, nil
		}
	}
	return 0, 0, false, kerr.OutOfOrderSequenceNumber
}

func (l *Log) noteProducer(b *Batch) {
	if b.ProducerID < 0 {
		return // it is not idempotent
	}
	if l.producers == nil {
		l.producers = make(map[producerID]producer)
	}
	id := idOf(b)
	p := append(l.producers[id], sequenceOf(b))
	l.producers[id] = p[max(0, len(p)-remembered):]
}
