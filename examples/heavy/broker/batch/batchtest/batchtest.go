// Package batchtest makes record batches for tests.
package batchtest

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Record is a key and a value.
type Record struct{ Key, Value []byte }

// Build makes an uncompressed batch of records, all of the same time.
func Build(millis int64, records []Record) []byte {
	count := int32(len(records))
	head := kmsg.RecordBatch{
		Magic:           2,
		LastOffsetDelta: count - 1,
		FirstTimestamp:  millis,
		MaxTimestamp:    millis,
		ProducerID:      -1,
		ProducerEpoch:   -1,
		FirstSequence:   -1,
		NumRecords:      count,
	}
	for i, r := range records {
		head.Records = appendRecord(head.Records, int32(i), r)
	}
	b := head.AppendTo(nil)
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-12))
	Seal(b)
	return b
}

// Seal makes the CRC of a batch right after its fields were changed.
func Seal(b []byte) {
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
}

func appendRecord(dst []byte, delta int32, r Record) []byte {
	body := []byte{0} // no attributes
	body = kbin.AppendVarlong(body, 0)
	body = kbin.AppendVarint(body, delta)
	body = kbin.AppendVarintBytes(body, r.Key)
	body = kbin.AppendVarintBytes(body, r.Value)
	body = kbin.AppendVarint(body, 0) // no headers
	return append(kbin.AppendVarint(dst, int32(len(body))), body...)
}
