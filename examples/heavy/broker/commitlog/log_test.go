package commitlog

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/delayedop/purgatory/examples/heavy/broker/batch"
	"github.com/delayedop/purgatory/examples/heavy/broker/batch/batchtest"
)

// records is a batch of n records as a producer sends it; id -1: not idempotent.
func records(n int, id int64, epoch int16, sequence int32) []byte {
	b := batchtest.Build(1, make([]batchtest.Record, n))
	binary.BigEndian.PutUint64(b[43:], uint64(id))
	binary.BigEndian.PutUint16(b[51:], uint16(epoch))
	binary.BigEndian.PutUint32(b[53:], uint32(sequence))
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

func fill(t *testing.T, l *Log, epoch int32, sizes ...int) {
	t.Helper()
	l.NoteEpoch(epoch)
	for _, n := range sizes {
		_, _, err := l.Append(records(n, -1, -1, -1), epoch)
		require.NoError(t, err)
	}
}

func TestReadEndsAtBatches(t *testing.T) {
	var l Log
	fill(t, &l, 0, 3, 2, 5)
	require.Equal(t, int64(10), l.End())
	b, rest, err := batch.Next(l.Read(4, 10, 1<<20, false))
	require.NoError(t, err)
	require.Equal(t, int64(3), b.BaseOffset(), "the batch that holds the offset")
	require.NotEmpty(t, rest)
	require.Empty(t, l.Read(0, 2, 1<<20, true), "nothing ends below 2")
	require.Empty(t, l.Read(0, 10, 1, false))
	require.Len(t, l.Read(0, 10, 1, true), len(records(3, -1, -1, -1)), "one, if it does not fit either")
	require.Empty(t, l.Read(10, 10, 1<<20, true))
}

// TestPositionsCountBytes: the difference of two is what a read between them
// returns, also after the oldest batches were dropped and the newest cut off.
func TestPositionsCountBytes(t *testing.T) {
	var l Log
	fill(t, &l, 0, 3, 2, 5, 4, 1)
	between := func(from, to int64) int { return int(l.Position(to) - l.Position(from)) }
	same := func() {
		t.Helper()
		for from := l.Start(); from <= l.End(); from++ {
			for to := from; to <= l.End(); to++ {
				require.Len(t, l.Read(from, to, 1<<20, false), between(from, to), "%d to %d", from, to)
			}
		}
		require.Equal(t, between(l.Start(), l.End()), l.Size())
	}
	same()
	before := l.Position(5)
	l.Retain(l.Size()-1, 15)
	require.Equal(t, int64(3), l.Start())
	require.Equal(t, before, l.Position(5), "positions do not move")
	same()
	l.Truncate(11)
	require.Equal(t, int64(10), l.End())
	same()
	fill(t, &l, 1, 7)
	same()
	l.Restart(100)
	require.Zero(t, l.Size())
	fill(t, &l, 1, 7)
	same()
}

func TestEpochsOfTwoLogsThatPartedAreFound(t *testing.T) {
	var leader, follower Log
	fill(t, &leader, 1, 10)
	require.NoError(t, follower.Replicate(leader.Read(0, 10, 1<<20, false)))
	fill(t, &follower, 2, 5) // led for a moment, and got what nobody else has
	fill(t, &leader, 3, 7)

	epoch, end := leader.EpochEnd(follower.LastEpoch())
	require.Equal(t, int32(1), epoch)
	require.Equal(t, int64(10), end)
	_, mine := follower.EpochEnd(epoch)
	follower.Truncate(min(mine, end))
	require.Equal(t, int64(10), follower.End())
	require.Equal(t, int32(1), follower.LastEpoch())
	require.NoError(t, follower.Replicate(leader.Read(10, 17, 1<<20, false)))
	require.Equal(t, leader.End(), follower.End())
}

// TestAnEpochWithoutRecordsIsTruncatedToo: else a follower that led for a moment
// and got nothing would name its epoch for ever, and be told for ever to cut.
func TestAnEpochWithoutRecordsIsTruncatedToo(t *testing.T) {
	var l Log
	fill(t, &l, 1, 10)
	l.NoteEpoch(2)
	l.Truncate(10)
	require.Equal(t, int32(1), l.LastEpoch())
	require.Equal(t, int64(10), l.End())
}

func TestEpochEndOfWhatIsNotThere(t *testing.T) {
	var l Log
	epoch, end := l.EpochEnd(0)
	require.Equal(t, [2]int64{-1, -1}, [2]int64{int64(epoch), end})
	fill(t, &l, 5, 1)
	epoch, end = l.EpochEnd(3) // a log that begins later
	require.Equal(t, [2]int64{3, 0}, [2]int64{int64(epoch), end})
}

func TestSequences(t *testing.T) {
	var l Log
	add := func(n int, epoch int16, sequence int32) (int64, error) {
		base, _, err := l.Append(records(n, 9, epoch, sequence), 0)
		return base, err
	}
	for i := range int32(7) {
		base, err := add(10, 0, i*10)
		require.NoError(t, err)
		require.Equal(t, int64(i)*10, base)
	}
	base, err := add(10, 0, 60)
	require.NoError(t, err)
	require.Equal(t, int64(60), base, "sent again: where it was the first time")
	require.Equal(t, int64(70), l.End())
	for _, c := range []struct {
		epoch    int16
		sequence int32
		err      error
	}{
		{0, 80, kerr.OutOfOrderSequenceNumber},
		{0, 0, kerr.OutOfOrderSequenceNumber}, // too long ago to know its offset
		{1, 5, kerr.OutOfOrderSequenceNumber},
		{-1, 70, kerr.InvalidProducerEpoch},
	} {
		_, err := add(10, c.epoch, c.sequence)
		require.Equal(t, c.err, err, "%+v", c)
	}
	_, err = add(1, 1, 0)
	require.NoError(t, err, "a new epoch begins at zero")

	var follower Log
	require.NoError(t, follower.Replicate(l.Read(0, l.End(), 1<<20, false)))
	base, _, err = follower.Append(records(1, 9, 1, 0), 1)
	require.NoError(t, err)
	require.Equal(t, int64(70), base, "who takes over knows what it has copied")
	follower.Truncate(70)
	base, _, err = follower.Append(records(10, 9, 0, 60), 1)
	require.NoError(t, err)
	require.Equal(t, int64(60), base, "and after a cut, what is left")
}

func TestSequencesWrap(t *testing.T) {
	var l Log
	for _, sequence := range []int32{math.MaxInt32 - 4, 5, math.MaxInt32 - 4} {
		_, _, err := l.Append(records(10, 9, 0, sequence), 0)
		require.NoError(t, err)
	}
	require.Equal(t, int64(20), l.End(), "the third was the first again")
}

func TestRetention(t *testing.T) {
	var l Log
	fill(t, &l, 0, 1, 1, 1, 1)
	one := len(records(1, -1, -1, -1))
	l.Retain(2*one, 1)
	require.Equal(t, int64(1), l.Start(), "nothing goes that is not committed")
	l.Retain(2*one, 4)
	require.Equal(t, int64(2), l.Start())
	require.Equal(t, int64(4), l.End())
}

func TestBadAppends(t *testing.T) {
	var l Log
	two := append(records(1, -1, -1, -1), records(1, -1, -1, -1)...)
	_, _, err := l.Append(two, 0)
	require.Equal(t, kerr.InvalidRecord, err)
	_, _, err = l.Append(nil, 0)
	require.Equal(t, kerr.CorruptMessage, err)
	b := batch.Batch(records(1, -1, -1, -1))
	b.Place(5, 0)
	require.Equal(t, kerr.OffsetOutOfRange, l.Replicate(b), "a gap")
	require.Zero(t, l.End())
}
