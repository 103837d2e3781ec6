package commitlog

import (
	"math"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/delayedop/purgatory/examples/heavy/broker/batch"
)

const (
	// remembered is how many of a producer's last batches are known again: a
	// producer has at most five unanswered.
	remembered   = 5
	maxProducers = 10_000
)

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

func sequenceOf(b batch.Batch) sequence {
	first := b.BaseSequence()
	// Sequences wrap from the largest int32 to zero.
	last := int32((int64(first) + int64(b.Count()) - 1) & math.MaxInt32)
	return sequence{first, last, b.BaseOffset(), b.End()}
}

// check says what to do with a producer's next batch: append it, or answer
// with the offsets that it got the first time, or refuse it. Of a producer
// that the log has never seen or has forgotten, any sequence is taken.
func (p *producer) check(b batch.Batch) (base, end int64, dup bool, err error) {
	if p == nil || b.ProducerID() < 0 {
		return 0, 0, false, nil
	}
	next, last := sequenceOf(b), p.recent[len(p.recent)-1]
	switch {
	case b.ProducerEpoch() < p.epoch:
		return 0, 0, false, kerr.InvalidProducerEpoch
	case b.ProducerEpoch() > p.epoch && next.first != 0:
		return 0, 0, false, kerr.OutOfOrderSequenceNumber
	case b.ProducerEpoch() > p.epoch, next.first == (last.last+1)&math.MaxInt32:
		return 0, 0, false, nil
	}
	for _, s := range p.recent {
		if s.first == next.first && s.last == next.last {
			return s.base, s.end, true, nil
		}
	}
	return 0, 0, false, kerr.OutOfOrderSequenceNumber
}

func (l *Log) noteProducer(b batch.Batch) {
	id := b.ProducerID()
	if id < 0 {
		return
	}
	p := l.producers[id]
	if p == nil {
		p = l.addProducer(id)
	}
	if p.epoch != b.ProducerEpoch() {
		p.epoch, p.recent = b.ProducerEpoch(), nil
	}
	if len(p.recent) == remembered {
		p.recent = append(p.recent[:0], p.recent[1:]...)
	}
	p.recent = append(p.recent, sequenceOf(b))
}

// addProducer makes room by forgetting the one that has been silent longest.
func (l *Log) addProducer(id int64) *producer {
	if l.producers == nil {
		l.producers = make(map[int64]*producer)
	}
	if len(l.producers) == maxProducers {
		silent, since := int64(-1), int64(math.MaxInt64)
		for id, p := range l.producers {
			if last := p.recent[len(p.recent)-1].end; last < since {
				silent, since = id, last
			}
		}
		delete(l.producers, silent)
	}
	p := &producer{}
	l.producers[id] = p
	return p
}
