package broker

import (
	"encoding/binary"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestFourBillionTagsEndTheConnection of whoever announces them, in each request that has
// tags, and no other's.
func TestFourBillionTagsEndTheConnection(t *testing.T) {
	b := newBench(t, 2)
	format := kmsg.NewRequestFormatter()
	for key, spoken := range versions {
		req := kmsg.RequestForKey(key)
		req.SetVersion(spoken.Max)
		if key == kmsg.ApiVersions.Int16() || !req.IsFlexible() {
			continue // it is answered undecoded, or has none
		}
		frame := format.AppendRequest(nil, req, 1)
		require.Zero(t, frame[len(frame)-1], "the number of its tags ends a request")
		frame = append(frame[:len(frame)-1], 0xff, 0xff, 0xff, 0xff, 0x0f)
		binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
		conn, err := net.Dial("tcp", b.Addr())
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
		_, err = conn.Write(frame)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, conn)
		require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "API key %d: still decoded", key)
	}
	metadata := kmsg.NewPtrMetadataRequest()
	metadata.Version = 9
	_, err := b.dial().Do(b.ctx, metadata)
	require.NoError(t, err)
}

// TestATopicAskedForOftenIsDescribedOnce: the answer is no multiple of what there is.
func TestATopicAskedForOftenIsDescribedOnce(t *testing.T) {
	b := newBench(t, 2)
	req, name := kmsg.NewPtrMetadataRequest(), "t"
	req.Version = 9
	for range 1000 {
		req.Topics = append(req.Topics, kmsg.MetadataRequestTopic{Topic: &name})
	}
	resp, err := b.dial().Do(b.ctx, req)
	require.NoError(t, err)
	require.Len(t, resp.(*kmsg.MetadataResponse).Topics, 1)
}
