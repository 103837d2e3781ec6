// Package batch reads and writes the outside of Kafka's record batches: what a
// broker has to know of them. The records inside, compressed or not, are
// between producer and consumer.
package batch

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"
)

// Where the fields of a batch, magic 2, stand.
const (
	atLength        = 8
	atLeaderEpoch   = 12
	atMagic         = 16
	atCRC           = 17
	atAttributes    = 21 // the CRC covers everything from here on
	atLastDelta     = 23
	atBaseTimestamp = 27
	atMaxTimestamp  = 35
	atProducerID    = 43
	atProducerEpoch = 51
	atBaseSequence  = 53
	atCount         = 57
	headerSize      = 61
	lengthSize      = 12 // base offset and length itself, not counted in the length
)

// maxCompressed is how many records a compressed batch may say it has. Producers
// close a batch by its size before it is compressed, far below.
const maxCompressed = 1 << 20

const (
	attrCompression   = 7
	attrTransactional = 1 << 4
	attrControl       = 1 << 5
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Batch is one whole record batch, checked by Next.
type Batch []byte

// Next takes the first batch off records. The errors are the protocol's, for
// the producer to read: a broken batch, a format of before 2017, a batch of a
// transaction, which nobody here would ever end.
func Next(records []byte) (b Batch, rest []byte, err error) {
	if len(records) < headerSize {
		return nil, nil, kerr.CorruptMessage
	}
	if records[atMagic] != 2 {
		return nil, nil, kerr.UnsupportedForMessageFormat
	}
	size := lengthSize + int(int32(binary.BigEndian.Uint32(records[atLength:])))
	if size < headerSize || size > len(records) {
		return nil, nil, kerr.CorruptMessage
	}
	b = Batch(records[:size])
	switch {
	case crc32.Checksum(b[atAttributes:], castagnoli) != b.u32(atCRC):
		return nil, nil, kerr.CorruptMessage
	case b.Count() < 1 || int32(b.u32(atLastDelta)) != b.Count()-1:
		return nil, nil, kerr.InvalidRecord
	case !b.plausible():
		return nil, nil, kerr.CorruptMessage
	case b.u16(atAttributes)&(attrTransactional|attrControl) != 0:
		return nil, nil, kerr.InvalidRecord
	}
	return b, records[size:], nil
}

// plausible says whether the batch can hold as many records as it says: what it
// says is how many offsets it gets. Records that are not compressed are counted.
func (b Batch) plausible() bool {
	if b.u16(atAttributes)&attrCompression != 0 {
		return b.Count() <= maxCompressed
	}
	r := kbin.Reader{Src: b[headerSize:]}
	for range b.Count() {
		if r.Span(int(r.Varint())); !r.Ok() {
			return false
		}
	}
	return len(r.Src) == 0
}

func (b Batch) u16(at int) uint16 { return binary.BigEndian.Uint16(b[at:]) }
func (b Batch) u32(at int) uint32 { return binary.BigEndian.Uint32(b[at:]) }
func (b Batch) i64(at int) int64  { return int64(binary.BigEndian.Uint64(b[at:])) }

// BaseOffset is the offset of the first record.
func (b Batch) BaseOffset() int64 { return b.i64(0) }

// End is the offset after the last record.
func (b Batch) End() int64 { return b.BaseOffset() + int64(b.Count()) }

// LeaderEpoch is that of the leader that placed the batch.
func (b Batch) LeaderEpoch() int32 { return int32(b.u32(atLeaderEpoch)) }

// Count is the number of records, as the producer says it.
func (b Batch) Count() int32 { return int32(b.u32(atCount)) }

// BaseTimestamp is the first record's time, in Unix milliseconds.
func (b Batch) BaseTimestamp() int64 { return b.i64(atBaseTimestamp) }

// MaxTimestamp is the largest of the records' times, in Unix milliseconds.
func (b Batch) MaxTimestamp() int64 { return b.i64(atMaxTimestamp) }

// ProducerID is -1 for a producer that is not idempotent.
func (b Batch) ProducerID() int64 { return b.i64(atProducerID) }

// ProducerEpoch is counted by the producer: a new one begins at sequence zero.
func (b Batch) ProducerEpoch() int16 { return int16(b.u16(atProducerEpoch)) }

// BaseSequence is the first record's place among all of the producer's.
func (b Batch) BaseSequence() int32 { return int32(b.u32(atBaseSequence)) }

// Place writes what the leader decides. Neither field is under the CRC.
func (b Batch) Place(baseOffset int64, leaderEpoch int32) {
	binary.BigEndian.PutUint64(b, uint64(baseOffset))
	binary.BigEndian.PutUint32(b[atLeaderEpoch:], uint32(leaderEpoch))
}
