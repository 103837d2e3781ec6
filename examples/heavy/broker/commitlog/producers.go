package commitlog

import (
	"math"

	"github.com/twmb/franz-go/pkg/kerr"
)

// remembered is how many of a producer's last batches are known again: a
// producer has at most five unanswered.
const remembered = 5

// producer is what the log knows of an idempotent producer. Followers learn it
// from the batches, so that a new leader knows as much as the old one.
type producer struct {
	epoch  int16
	recent []sequence // the last batches, oldest first
}

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
// that the log has never seen, any sequence is taken.
func (p *producer) check(b *Batch) (base, end int64, dup bool, err error) {
	if p == nil {
		return 0, 0, false, nil
	}
	next, last := sequenceOf(b), p.recent[len(p.recent)-1]
	switch {
	case b.ProducerEpoch < p.epoch:
		return 0, 0, false, kerr.InvalidProducerEpoch
	case b.ProducerEpoch > p.epoch && next.first != 0:
		return 0, 0, false, kerr.OutOfOrderSequenceNumber
	case b.ProducerEpoch > p.epoch, next.first == (last.last+1)&math.MaxInt32:
		return 0, 0, false, nil
	}
	for _, s := range p.recent {
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
		l.producers = make(map[int64]*producer)
	}
	p := l.producers[b.ProducerID]
	if p == nil || p.epoch != b.ProducerEpoch {
		p = &producer{epoch: b.ProducerEpoch}
		l.producers[b.ProducerID] = p
	}
	if len(p.recent) == remembered {
		p.recent = append(p.recent[:0], p.recent[1:]...)
	}
	p.recent = append(p.recent, sequenceOf(b))
}
