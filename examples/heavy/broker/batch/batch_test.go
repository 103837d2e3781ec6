package batch

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/delayedop/purgatory/examples/heavy/broker/batch/batchtest"
)

func TestWhatIsBuiltIsRead(t *testing.T) {
	records := []batchtest.Record{{Key: []byte("k"), Value: []byte("v")}, {Value: []byte("w")}, {Key: []byte("x")}}
	built := batchtest.Build(1234, records)
	b, rest, err := Next(append(built, 1, 2, 3))
	require.NoError(t, err)
	require.Equal(t, []byte{1, 2, 3}, rest)
	b.Place(100, 7) // does not break the CRC
	b, _, err = Next(b)
	require.NoError(t, err)
	require.Equal(t, int64(100), b.BaseOffset())
	require.Equal(t, int64(103), b.End())
	require.Equal(t, int32(7), b.LeaderEpoch())
	require.Equal(t, int64(1234), b.MaxTimestamp())
	got := recordsOf(t, b)
	require.Len(t, got, 3)
	require.Equal(t, "k", string(got[0].Key))
	require.Equal(t, "w", string(got[1].Value))
}

func TestBrokenBatches(t *testing.T) {
	whole := func() Batch { return Batch(batchtest.Build(1, []batchtest.Record{{Value: []byte("value")}})) }
	for at := range whole() {
		b := whole()
		b[at] ^= 0x55
		_, _, err := Next(b)
		if at < lengthSize-4 || (at >= atLeaderEpoch && at < atMagic) {
			require.NoError(t, err, "the leader's own field at %d", at)
		} else {
			require.Error(t, err, "byte %d", at)
		}
	}
	for cut := range whole() {
		_, _, err := Next(whole()[:cut])
		require.Equal(t, kerr.CorruptMessage, err, "cut to %d", cut)
	}
	old := whole()
	old[atMagic] = 1
	_, _, err := Next(old)
	require.Equal(t, kerr.UnsupportedForMessageFormat, err)
}

// TestABatchHoldsWhatItSays: each record gets an offset, so a batch that says more
// than it holds would leave a gap, and one that says less would hide some.
func TestABatchHoldsWhatItSays(t *testing.T) {
	says := func(count int32, attributes uint16) error {
		b := Batch(batchtest.Build(1, []batchtest.Record{{Value: []byte("value")}, {Value: []byte("value")}}))
		binary.BigEndian.PutUint32(b[atCount:], uint32(count))
		binary.BigEndian.PutUint32(b[atLastDelta:], uint32(count-1))
		binary.BigEndian.PutUint16(b[atAttributes:], attributes)
		binary.BigEndian.PutUint32(b[atCRC:], crc32.Checksum(b[atAttributes:], castagnoli))
		_, _, err := Next(b)
		return err
	}
	require.NoError(t, says(2, 0))
	require.Equal(t, kerr.CorruptMessage, says(math.MaxInt32, 0))
	require.Equal(t, kerr.CorruptMessage, says(3, 0))
	require.Equal(t, kerr.CorruptMessage, says(1, 0))
	require.Equal(t, kerr.InvalidRecord, says(0, 0))
	require.Equal(t, kerr.CorruptMessage, says(math.MaxInt32, 4), "compressed")
	require.NoError(t, says(1000, 4), "nobody counts what is compressed")
}

func FuzzNext(f *testing.F) {
	f.Add(batchtest.Build(1, []batchtest.Record{{Key: []byte("k"), Value: []byte("v")}}))
	f.Fuzz(func(t *testing.T, records []byte) {
		if b, _, err := Next(records); err == nil {
			require.LessOrEqual(t, len(b), len(records))
			require.Equal(t, b.BaseOffset()+int64(b.Count()), b.End())
		}
	})
}

// recordsOf are the records as kmsg reads them.
func recordsOf(t *testing.T, b Batch) (records []batchtest.Record) {
	t.Helper()
	var head kmsg.RecordBatch
	require.NoError(t, head.ReadFrom(b))
	r := kbin.Reader{Src: head.Records}
	for range head.NumRecords {
		var one kmsg.Record
		before := r.Src
		size := int(r.Varint())
		require.NoError(t, one.ReadFrom(before[:len(before)-len(r.Src)+size]))
		r.Span(size)
		records = append(records, batchtest.Record{Key: one.Key, Value: one.Value})
	}
	return records
}
