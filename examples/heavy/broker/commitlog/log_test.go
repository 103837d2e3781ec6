package commitlog

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/delayedop/purgatory/examples/heavy/broker/commitlog/batchtest"
)

// records is a batch of n records as a producer sends it; id -1: not idempotent.
func records(n int, id int64, epoch int16, sequence int32) []byte {
	b := batchtest.Build(1, make([][]byte, n)...)
	binary.BigEndian.PutUint64(b[43:], uint64(id))
	binary.BigEndian.PutUint16(b[51:], uint16(epoch))
	binary.BigEndian.PutUint32(b[53:], uint32(sequence))
	return batchtest.Seal(b)
}

func fill(t *testing.T, l *Log, epoch int32, sizes ...int) {
	t.Helper()
	for _, n := range sizes {
		_, _, err := l.Append(records(n, -1, -1, -1), epoch)
		require.NoError(t, err)
	}
}

func TestReadEndsAtBatches(t *testing.T) {
	var l Log
	fill(t, &l, 0, 3, 2, 5)
	require.Equal(t, int64(10), l.End())
	b, rest, err := next(l.Read(4, 10, 1<<20, false))
	require.NoError(t, err)
	require.Equal(t, int64(3), b.FirstOffset, "the batch that holds the offset")
	require.NotEmpty(t, rest)
	require.Empty(t, l.Read(0, 2, 1<<20, true), "nothing ends below 2")
	require.Empty(t, l.Read(0, 10, 1, false))
	require.Len(t, l.Read(0, 10, 1, true), len(records(3, -1, -1, -1)), "one, if it does not fit either")
	require.Empty(t, l.Read(10, 10, 1<<20, true))
}

// TestPositionsCountBytes: the difference of two is what a read between them
// returns, also after the oldest batches were dropped.
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
	}
	same()
	before := l.Position(5)
	l.Retain(between(l.Start(), l.End())-1, 15)
	require.Equal(t, int64(3), l.Start())
	require.Equal(t, before, l.Position(5), "positions do not move")
	same()
	fill(t, &l, 1, 7)
	same()
	l.Restart(100)
	require.Zero(t, between(l.Start(), l.End()))
	fill(t, &l, 1, 7)
	same()
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
	require.NoError(t, l.Replicate(records(1, -1, -1, -1)))
	require.Equal(t, kerr.OffsetOutOfRange, l.Replicate(records(1, -1, -1, -1)), "not where the log ends")
	require.Equal(t, int64(1), l.End())
}
