package wire

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/delayedop/purgatory/internal/watchdog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(watchdog.Over(m)) }

// spoken is what the servers of these tests speak: old and flexible versions.
var spoken = Versions{0: {3, 9}, 3: {0, 9}, 12: {0, 4}, 18: {0, 3}}

// frameOf is a request as a client sends it, with the correlation 42.
func frameOf(req kmsg.Request) []byte {
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("client")).AppendRequest(nil, req, 42)
}

// produceOf is a produce of these records.
func produceOf(version int16, records []byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Version = version
	p := kmsg.ProduceRequestTopicPartition{Partition: 7, Records: records}
	req.Topics = []kmsg.ProduceRequestTopic{{Topic: "t", Partitions: []kmsg.ProduceRequestTopicPartition{p, p}}}
	return req
}

// TestRequestsSurviveTheWay, in old versions and in flexible ones.
func TestRequestsSurviveTheWay(t *testing.T) {
	for version := int16(3); version <= 9; version++ {
		sent := produceOf(version, []byte("records"))
		correlation, got, err := parseRequest(frameOf(sent)[4:], spoken)
		require.NoError(t, err)
		require.Equal(t, int32(42), correlation)
		require.Equal(t, sent.AppendTo(nil), got.AppendTo(nil), "version %d", version)
	}
}

// TestBadRequestsAreErrors, also those that announce more than there is.
func TestBadRequestsAreErrors(t *testing.T) {
	head := func(key, version byte) []byte { return kbin.AppendString([]byte{0, key, 0, version, 0, 0, 0, 1}, "") }
	for name, frame := range map[string][]byte{
		"tags of the header": append(head(12, 4), 0xff, 0xff, 0xff, 0xff, 0x0f),
		"topics":             append(head(3, 1), 0x7f, 0xff, 0xff, 0xff),
		"compact topics":     append(head(3, 9), 0, 0xff, 0xff, 0xff, 0xff, 0x0f),
		"many empty topics":  append(append(head(3, 1), 0, 16, 0, 0), make([]byte, 2<<20)...),
		"an unknown API":     head(99, 0),
		"an unknown version": head(3, 99),
		"nothing":            {},
		"half a header":      {0, 3, 0},
	} {
		_, _, err := parseRequest(frame, spoken)
		require.Error(t, err, name)
	}
}

func TestFramesThatAreTooLong(t *testing.T) {
	for _, size := range []uint32{1 << 31, 0xffffffff, maxFrame + 1, 3} {
		r := bufio.NewReader(bytes.NewReader(binary.BigEndian.AppendUint32(nil, size)))
		_, err := new(Conn).frame(r, never)
		require.ErrorIs(t, err, errFrame)
	}
}
