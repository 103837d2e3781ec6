package kv

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSnapshotKeepsEverything(t *testing.T) {
	s := New()
	s.Apply([]Write{{"a", Entry{[]byte("1"), 4}}, {"", Entry{nil, 5}}, {"a", Entry{[]byte("2"), 6}}}, 7)
	snapshot := s.Snapshot()
	s.Apply([]Write{{"a", Entry{[]byte("later"), 8}}}, 8)

	var b bytes.Buffer
	require.NoError(t, snapshot.Write(&b))
	other := New()
	other.Apply([]Write{{"gone", Entry{nil, 1}}}, 2)
	changed, applied, err := other.Restore(bytes.NewReader(b.Bytes()))
	require.NoError(t, err)
	require.EqualValues(t, 7, applied)
	require.EqualValues(t, 7, other.Applied())
	require.Len(t, changed, 2)
	require.Equal(t, 2, other.Len())
	e, ok := other.Get("a")
	require.True(t, ok)
	require.Equal(t, "2", string(e.Value))
	require.EqualValues(t, 6, other.Revision("a"))

	changed, _, err = other.Restore(bytes.NewReader(b.Bytes()))
	require.NoError(t, err)
	require.Empty(t, changed, "nothing is newer")
}

// TestDamagedSnapshotChangesNothing cuts a snapshot short at every byte.
func TestDamagedSnapshotChangesNothing(t *testing.T) {
	s := New()
	s.Apply([]Write{{"key", Entry{[]byte("value"), 4}}}, 4)
	var b bytes.Buffer
	require.NoError(t, s.Snapshot().Write(&b))
	for n := range b.Len() {
		_, _, err := s.Restore(bytes.NewReader(b.Bytes()[:n]))
		require.ErrorIs(t, err, errSnapshot, "%d bytes", n)
	}
	_, _, err := s.Restore(bytes.NewReader(bytes.Replace(b.Bytes(), []byte(snapshotFormat), []byte("another"), 1)))
	require.ErrorIs(t, err, errSnapshot)
	require.EqualValues(t, 4, s.Revision("key"))
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.ErrUnsupported }

func TestSnapshotReportsAFailedWrite(t *testing.T) {
	s := New()
	for i := range 10_000 {
		s.Apply([]Write{{fmt.Sprint(i), Entry{make([]byte, 100), 1}}}, 1)
	}
	require.ErrorIs(t, s.Snapshot().Write(fullDisk{}), errors.ErrUnsupported)
	require.NoError(t, s.Snapshot().Write(io.Discard))
}

func FuzzDecode(f *testing.F) {
	put := Command{ID: ID{1, 2}, Key: "k", Value: []byte("v")}
	begin := Command{ID: ID{3, 4}, Begin: true, Value: []byte{}}
	f.Add(put.Encode())
	f.Add(begin.Encode())
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := Decode(b)
		if err != nil {
			require.ErrorIs(t, err, errCommand)
			return
		}
		require.Equal(t, b, c.Encode())
	})
}
