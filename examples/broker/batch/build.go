package batch

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Record is a key and a value.
type Record struct{ Key, Value []byte }

// Build makes an uncompressed batch of records, all of the same time, for tests: a
// broker only passes batches on.
func Build(millis int64, records []Record) Batch {
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
	b := Batch(head.AppendTo(nil))
	binary.BigEndian.PutUint32(b[atLength:], uint32(len(b)-lengthSize))
	binary.BigEndian.PutUint32(b[atCRC:], crc32.Checksum(b[atAttributes:], castagnoli))
	return b
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
