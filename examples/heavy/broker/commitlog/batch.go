package commitlog

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// What stands before the part of a batch that its length counts, and before the part
// that its CRC covers.
const (
	lengthSize  = 12
	magicOffset = 16
	crcSize     = 21
	headerSize  = 61

	attrTransactional = 1 << 4
	attrControl       = 1 << 5
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Batch is one whole record batch: its header, and the bytes as they are sent. The
// records inside, compressed or not, are between producer and consumer.
type Batch struct {
	kmsg.RecordBatch
	bytes []byte
}

// End is the offset after the last record.
func (b *Batch) End() int64 { return b.FirstOffset + int64(b.NumRecords) }

// next takes the first batch off records. The errors are the protocol's, for
// the producer to read: a broken batch, a format of before 2017, a batch of a
// transaction, which nobody here would ever end.
func next(records []byte) (b Batch, rest []byte, err error) {
	if len(records) < headerSize {
		return b, nil, kerr.CorruptMessage
	}
	if records[magicOffset] != 2 {
		return b, nil, kerr.UnsupportedForMessageFormat
	}
	size := lengthSize + int(int32(binary.BigEndian.Uint32(records[8:])))
	if size < headerSize || size > len(records) {
		return b, nil, kerr.CorruptMessage
	}
	b.bytes = bytes.Clone(records[:size]) // the log must not pin the request
	if err := b.UnsafeReadFrom(b.bytes); err != nil {
		return b, nil, kerr.CorruptMessage
	}
	switch {
	case crc32.Checksum(b.bytes[crcSize:], castagnoli) != uint32(b.CRC):
		return b, nil, kerr.CorruptMessage
	case b.NumRecords < 1 || b.LastOffsetDelta != b.NumRecords-1 || b.Attributes&(attrTransactional|attrControl) != 0:
		return b, nil, kerr.InvalidRecord
	}
	return b, records[size:], nil
}

// place writes what the leader decides. Neither field is under the CRC.
func (b *Batch) place(offset int64, leaderEpoch int32) {
	b.FirstOffset, b.PartitionLeaderEpoch = offset, leaderEpoch
	binary.BigEndian.PutUint64(b.bytes, uint64(offset))
	binary.BigEndian.PutUint32(b.bytes[lengthSize:], uint32(leaderEpoch))
}
