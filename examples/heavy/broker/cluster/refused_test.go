package cluster

import (
	"context"
	"encoding/binary"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestTransactionsAreRefused with an error that ends the attempt.
func TestTransactionsAreRefused(t *testing.T) {
	c := start(t, testConfig())
	cl := client(t, c, kgo.TransactionalID("tx"), kgo.DefaultProduceTopic("t"))
	err := cl.BeginTransaction()
	if err == nil {
		err = cl.ProduceSync(ctx(t), kgo.StringRecord("v")).FirstErr()
	}
	require.ErrorIs(t, err, kerr.TransactionalIDAuthorizationFailed)
}

// TestTheNewGroupProtocolIsRefused with the error that Kafka has for it.
func TestTheNewGroupProtocolIsRefused(t *testing.T) {
	c := start(t, testConfig())
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Group, req.MemberID, req.RebalanceTimeoutMillis = "g", "m", 1000
	resp := dial(t, c).ask(req).(*kmsg.ConsumerGroupHeartbeatResponse)
	require.Equal(t, kerr.UnsupportedVersion.Code, resp.ErrorCode)
	require.NotNil(t, resp.ErrorMessage)
}

// TestKcatIsToldOfTheNewGroupProtocol: librdkafka does not sit in silence.
func TestKcatIsToldOfTheNewGroupProtocol(t *testing.T) {
	if _, err := exec.LookPath("kcat"); err != nil {
		t.Skip("kcat is not installed (Debian: apt-get install kcat)")
	}
	c := start(t, testConfig())
	produce(t, client(t, c), "new", 0, 10)
	bounded, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	said, err := exec.CommandContext(bounded, "kcat", "-b", strings.Join(c.Addrs(), ","), "-X", "group.protocol=consumer",
		"-G", "readers", "new").CombinedOutput()
	if strings.Contains(string(said), "No such configuration property") {
		t.Skip("this librdkafka does not know the protocol")
	}
	t.Logf("%v\n%s", err, said)
	require.NoError(t, bounded.Err(), "it waits in silence")
	require.Error(t, err)
}

// TestHalfSentFramesHoldNobodyUp: forty clients announce eight megabytes, some send
// almost all of it, and one produces as if they were not there.
func TestHalfSentFramesHoldNobodyUp(t *testing.T) {
	const large = 8 << 20
	config := testConfig()
	config.Broker.MaxStall = time.Hour // were one held up, it would be for as long as those
	c := start(t, config)
	cl := client(t, c)
	create(t, cl, "t", 3, 3)
	for i := range 40 {
		conn, err := net.Dial("tcp", c.Addrs()[i%3])
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		_, err = conn.Write(binary.BigEndian.AppendUint32(nil, large))
		require.NoError(t, err)
		if i < 12 {
			_, err = conn.Write(make([]byte, large-1))
			require.NoError(t, err)
		}
	}
	for range 20 {
		require.NoError(t, cl.ProduceSync(ctx(t), &kgo.Record{Topic: "t", Value: make([]byte, 500<<10)}).FirstErr())
	}
}
