package cluster

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/delayedop/purgatory/examples/heavy/broker/commitlog/batchtest"
)

// raw is a connection on which a test may write what it likes.
type raw struct {
	t testing.TB
	net.Conn
	r *bufio.Reader
}

// dial connects to the first broker.
func dial(t *testing.T, c *Cluster) *raw {
	t.Helper()
	return dialTo(t, c.Addrs()[0])
}

func dialTo(t *testing.T, addr string) *raw {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
	return newRaw(t, conn)
}

func newRaw(t testing.TB, conn net.Conn) *raw { return &raw{t, conn, bufio.NewReader(conn)} }

// send writes a frame with the given header and body.
func (r *raw) send(key, version int16, flexible bool, body []byte) {
	frame := kbin.AppendInt16(make([]byte, 4), key)
	frame = kbin.AppendInt16(frame, version)
	frame = kbin.AppendInt32(frame, 77)
	frame = kbin.AppendString(frame, "raw")
	if flexible {
		frame = append(frame, 0)
	}
	frame = append(frame, body...)
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
	_, err := r.Write(frame)
	require.NoError(r.t, err)
}

// ask sends a request and decodes the answer.
func (r *raw) ask(req kmsg.Request) kmsg.Response {
	r.send(req.Key(), req.GetVersion(), req.IsFlexible(), req.AppendTo(nil))
	body := r.receive()
	resp := req.ResponseKind()
	if resp.IsFlexible() && resp.Key() != 18 {
		body = body[1:]
	}
	require.NoError(r.t, resp.ReadFrom(body))
	return resp
}

// receive reads a response's body, of which the header was version 0.
func (r *raw) receive() []byte {
	var size [4]byte
	_, err := io.ReadFull(r.r, size[:])
	require.NoError(r.t, err)
	frame := make([]byte, binary.BigEndian.Uint32(size[:]))
	_, err = io.ReadFull(r.r, frame)
	require.NoError(r.t, err)
	require.Equal(r.t, uint32(77), binary.BigEndian.Uint32(frame))
	return frame[4:]
}

func (r *raw) requireClosed() {
	r.t.Helper()
	_, err := r.r.ReadByte()
	require.Error(r.t, err)
	require.NotErrorIs(r.t, err, os.ErrDeadlineExceeded, "still open")
}

// TestANewerClientsFirstHandshake: asked in a version of ApiVersions that it does
// not know, the broker answers in version 0, with the error and with what it
// speaks, and the client asks again on the same connection.
func TestANewerClientsFirstHandshake(t *testing.T) {
	c := start(t, testConfig())
	r := dial(t, c)
	r.send(18, 99, true, []byte("whatever that version has"))
	resp := kmsg.NewPtrApiVersionsResponse()
	require.NoError(t, resp.ReadFrom(r.receive()))
	require.Equal(t, kerr.UnsupportedVersion.Code, resp.ErrorCode)
	spoken := make(map[int16]int16)
	for _, k := range resp.ApiKeys {
		spoken[k.ApiKey] = k.MaxVersion
	}
	require.Equal(t, int16(4), spoken[18])
	for _, version := range []int16{0, 1, 2, 3, 4} {
		req := kmsg.NewPtrApiVersionsRequest()
		req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = version, "raw", "1"
		got := r.ask(req).(*kmsg.ApiVersionsResponse)
		require.Zero(t, got.ErrorCode)
		require.Len(t, got.ApiKeys, len(spoken))
	}
}

func TestBadInputEndsOnlyItsOwnConnection(t *testing.T) {
	c := start(t, testConfig())
	healthy := client(t, c)
	create(t, healthy, "healthy", 1, 3)
	for name, write := range map[string]func(*raw){
		"a frame beyond all bounds": func(r *raw) { _, _ = r.Write([]byte{0x7f, 0xff, 0xff, 0xff, 0, 0}) },
		"a negative length":         func(r *raw) { _, _ = r.Write([]byte{0xff, 0xff, 0xff, 0xff, 0, 0}) },
		"HTTP":                      func(r *raw) { _, _ = r.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")) },
		"a truncated request":       func(r *raw) { r.send(3, 1, false, []byte{0, 0, 0, 9}) },
		"a truncated frame": func(r *raw) {
			_, _ = r.Write([]byte{0, 0, 1, 0, 0, 3, 0, 1})
			_ = r.Conn.(*net.TCPConn).CloseWrite()
		},
		"an unknown API":       func(r *raw) { r.send(999, 0, false, nil) },
		"an unknown version":   func(r *raw) { r.send(3, 99, true, nil) },
		"another broker's API": func(r *raw) { r.send(4, 0, false, nil) },
		"two billion topics":   func(r *raw) { r.send(3, 1, false, []byte{0x7f, 0xff, 0xff, 0xff}) },
		"8,001 topics to produce to": func(r *raw) {
			req := produceRequest("t", nil)
			req.Topics = make([]kmsg.ProduceRequestTopic, 8001)
			r.send(0, req.Version, req.IsFlexible(), req.AppendTo(nil))
		},
		"acks=0 to a topic not here": func(r *raw) { r.ask0() },
	} {
		t.Run(name, func(t *testing.T) {
			r := dial(t, c)
			write(r)
			r.requireClosed()
			produce(t, healthy, "healthy", 0, 10)
		})
	}
}

// ask0 produces with acks=0 where nothing can be produced. There is no answer to
// tell it by: the connection ends.
func (r *raw) ask0() {
	req := produceRequest("nowhere", []byte("records"))
	req.Acks = 0
	r.send(0, req.Version, req.IsFlexible(), req.AppendTo(nil))
}

func recordBatch() []byte {
	return batchtest.Build(1, []byte("value"))
}

func produceRequest(topic string, records []byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = 9, -1, 30_000
	req.Topics = []kmsg.ProduceRequestTopic{{Topic: topic, Partitions: []kmsg.ProduceRequestTopicPartition{{Records: records}}}}
	return req
}

// TestBadRequestsGetTheProtocolsErrors, on a connection that lives on.
func TestBadRequestsGetTheProtocolsErrors(t *testing.T) {
	config := testConfig()
	config.Brokers, config.Broker.MinInsyncReplicas = 1, 1
	c := start(t, config)
	create(t, client(t, c), "t", 1, 1)
	r := dial(t, c)

	produced := func(req *kmsg.ProduceRequest) error {
		return kerr.ErrorForCode(r.ask(req).(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode)
	}
	good := recordBatch()
	require.NoError(t, produced(produceRequest("t", good)))
	corrupt := recordBatch()
	corrupt[len(corrupt)-1] ^= 1
	require.Equal(t, kerr.CorruptMessage, produced(produceRequest("t", corrupt)))
	require.Equal(t, kerr.CorruptMessage, produced(produceRequest("t", good[:len(good)-1])))
	require.Equal(t, kerr.CorruptMessage, produced(produceRequest("t", nil)))
	require.Equal(t, kerr.MessageTooLarge, produced(produceRequest("t", make([]byte, 2<<20))))
	require.Equal(t, kerr.UnknownTopicOrPartition, produced(produceRequest("nowhere", good)))
	acks := produceRequest("t", good)
	acks.Acks = 7
	require.Equal(t, kerr.InvalidRequiredAcks, produced(acks))
	old := produceRequest("t", good)
	old.Version = 2
	require.Equal(t, kerr.UnsupportedForMessageFormat, produced(old))
	nowhere := produceRequest("t", good)
	nowhere.Topics[0].Partitions[0].Partition = 1 << 30
	require.Equal(t, kerr.UnknownTopicOrPartition, produced(nowhere))

	fetch := kmsg.NewPtrFetchRequest()
	fetch.Version, fetch.MaxWaitMillis, fetch.MinBytes, fetch.MaxBytes = 11, 30_000, 1, 1<<20
	part := kmsg.NewFetchRequestTopicPartition()
	part.PartitionMaxBytes = 1 << 20
	fetch.Topics = []kmsg.FetchRequestTopic{{Topic: "nowhere", Partitions: []kmsg.FetchRequestTopicPartition{part}}}
	fetched := func() error {
		return kerr.ErrorForCode(r.ask(fetch).(*kmsg.FetchResponse).Topics[0].Partitions[0].ErrorCode)
	}
	require.Equal(t, kerr.UnknownTopicOrPartition, fetched())
	fetch.Topics[0].Topic = "t"
	require.NoError(t, fetched())
	at := &fetch.Topics[0].Partitions[0]
	at.FetchOffset = 99
	require.Equal(t, kerr.OffsetOutOfRange, fetched())
	at.FetchOffset, at.CurrentLeaderEpoch = 0, 99
	require.Equal(t, kerr.UnknownLeaderEpoch, fetched())

	join := kmsg.NewPtrJoinGroupRequest()
	join.Version, join.Group = 9, "g"
	require.Equal(t, kerr.InvalidSessionTimeout.Code, r.ask(join).(*kmsg.JoinGroupResponse).ErrorCode)
	id := kmsg.NewPtrInitProducerIDRequest()
	id.TransactionalID = kmsg.StringPtr("tx")
	require.Equal(t, kerr.TransactionalIDAuthorizationFailed.Code, r.ask(id).(*kmsg.InitProducerIDResponse).ErrorCode)

	create := kmsg.NewPtrCreateTopicsRequest()
	create.Version, create.TimeoutMillis = 6, 10_000
	for name, partitions := range map[string]int32{"t": 1, "no/slash": 1, "none": 0, "many": 1 << 30} {
		rt := kmsg.NewCreateTopicsRequestTopic()
		rt.Topic, rt.NumPartitions, rt.ReplicationFactor = name, partitions, 1
		create.Topics = append(create.Topics, rt)
	}
	want := map[string]int16{
		"t": kerr.TopicAlreadyExists.Code, "no/slash": kerr.InvalidTopicException.Code,
		"none": kerr.InvalidPartitions.Code, "many": kerr.InvalidPartitions.Code,
	}
	for _, st := range r.ask(create).(*kmsg.CreateTopicsResponse).Topics {
		require.Equal(t, want[st.Topic], st.ErrorCode, st.Topic)
	}
}

func TestManyConnections(t *testing.T) {
	c := start(t, testConfig())
	cl := client(t, c)
	create(t, cl, "many", 3, 3)
	before := c.Broker(1).Conns()
	var open []*raw
	for range 200 {
		r := dial(t, c)
		req := kmsg.NewPtrMetadataRequest()
		req.Version = 1
		require.NotEmpty(t, r.ask(req).(*kmsg.MetadataResponse).Brokers)
		open = append(open, r)
	}
	produce(t, cl, "many", 0, 100)
	consume(t, client(t, c, kgo.ConsumeTopics("many"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())), 100)
	for _, r := range open {
		_ = r.Close()
	}
	require.Eventually(t, func() bool { return c.Broker(1).Conns() <= before+10 }, patience, time.Millisecond)
}
