package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// logOf builds a log of records with these epochs.
func logOf(epochs ...int) appendLog {
	var l appendLog
	for _, e := range epochs {
		l.append(record{Epoch: e, Value: "v"})
	}
	return l
}

func TestLogReadIsBounded(t *testing.T) {
	l := logOf(0, 1, 2)
	assert.Len(t, l.read(0, 10), 3)
	assert.Len(t, l.read(1, 1), 1)
	assert.Equal(t, 1, l.read(1, 1)[0].Epoch)
	assert.Empty(t, l.read(3, 10))
	assert.Empty(t, l.read(4, 10))
	assert.Empty(t, l.read(-1, 10))
}

func TestLogEndOfEpoch(t *testing.T) {
	l := logOf(1, 1, 3, 3, 3)
	for _, test := range []struct {
		epoch int
		want  epochEnd
	}{
		{0, epochEnd{Epoch: -1, End: 0}},
		{1, epochEnd{Epoch: 1, End: 2}},
		{2, epochEnd{Epoch: 1, End: 2}},
		{3, epochEnd{Epoch: 3, End: 5}},
		{9, epochEnd{Epoch: 3, End: 5}},
	} {
		assert.Equal(t, test.want, l.endOf(test.epoch), "epoch %d", test.epoch)
	}
	empty := logOf()
	assert.Equal(t, epochEnd{Epoch: -1}, empty.endOf(0))
	assert.Equal(t, -1, empty.lastEpoch())
}

// What has been read may still be on its way over TCP when the log is cut and written again.
func TestLogTruncateLeavesReadersAlone(t *testing.T) {
	l := logOf(0, 0, 0)
	read := l.read(0, 3)
	l.truncate(1)
	l.append(record{Epoch: 7})
	assert.Equal(t, 0, read[1].Epoch)
	assert.Equal(t, int64(2), l.end())
	assert.Equal(t, 7, l.lastEpoch())
	l.truncate(5)
	assert.Equal(t, int64(2), l.end(), "a log is never made longer")
}

func TestLogAppendLeavesReadersAlone(t *testing.T) {
	l := logOf(0, 0, 0)
	read := l.read(0, 2)
	_ = append(read, record{Epoch: 9})
	assert.Equal(t, 0, l.read(2, 1)[0].Epoch)
}
