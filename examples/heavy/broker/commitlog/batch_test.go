package commitlog

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/delayedop/purgatory/examples/heavy/broker/commitlog/batchtest"
)

func TestWhatIsBuiltIsRead(t *testing.T) {
	built := batchtest.Build(1234, []byte("v"), []byte("w"), []byte("x"))
	b, rest, err := next(append(built, 1, 2, 3))
	require.NoError(t, err)
	require.Equal(t, []byte{1, 2, 3}, rest)
	b.place(100, 7) // does not break the CRC
	b, _, err = next(b.bytes)
	require.NoError(t, err)
	require.Equal(t, int64(100), b.FirstOffset)
	require.Equal(t, int64(103), b.End())
	require.Equal(t, int32(7), b.PartitionLeaderEpoch)
	require.Equal(t, int64(1234), b.MaxTimestamp)
}

func TestBrokenBatches(t *testing.T) {
	whole := func() []byte { return batchtest.Build(1, []byte("value")) }
	for at := range whole() {
		b := whole()
		b[at] ^= 0x55
		_, _, err := next(b)
		if at < 8 || (at >= lengthSize && at < magicOffset) {
			require.NoError(t, err, "the leader's own field at %d", at)
		} else {
			require.Error(t, err, "byte %d", at)
		}
	}
	for cut := range whole() {
		_, _, err := next(whole()[:cut])
		require.Equal(t, kerr.CorruptMessage, err, "cut to %d", cut)
	}
	old := whole()
	old[magicOffset] = 1
	_, _, err := next(old)
	require.Equal(t, kerr.UnsupportedForMessageFormat, err)
	transactional := whole()
	transactional[22] |= attrTransactional
	_, _, err = next(batchtest.Seal(transactional))
	require.Equal(t, kerr.InvalidRecord, err)
}

func FuzzNext(f *testing.F) {
	f.Add(batchtest.Build(1, []byte("v")))
	f.Add(binary.BigEndian.AppendUint64(nil, 0))
	f.Fuzz(func(t *testing.T, records []byte) {
		if b, rest, err := next(records); err == nil {
			require.Len(t, records, len(b.bytes)+len(rest))
			require.Positive(t, b.NumRecords)
		}
	})
}
