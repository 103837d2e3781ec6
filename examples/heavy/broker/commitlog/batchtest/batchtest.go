// Package batchtest makes record batches for tests.
package batchtest

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Build makes an uncompressed batch of records with these values, all of the same time.
func Build(millis int64, values ...[]byte) []byte {
	head := kmsg.RecordBatch{
		Magic: 2, LastOffsetDelta: int32(len(values)) - 1, NumRecords: int32(len(values)),
		FirstTimestamp: millis, MaxTimestamp: millis, ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1,
	}
	for i, value := range values {
		r := kmsg.Record{OffsetDelta: int32(i), Value: value}
		r.Length = int32(len(r.AppendTo(nil)) - 1) // a length of zero takes one byte
		head.Records = r.AppendTo(head.Records)
	}
	b := head.AppendTo(nil)
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-12))
	return Seal(b)
}

// Seal makes the CRC of a batch right after its fields were changed.
func Seal(b []byte) []byte {
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}
