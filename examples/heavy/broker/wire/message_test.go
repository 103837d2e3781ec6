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
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// everything lists each API that has a shape, in all versions that kmsg knows.
func everything() Versions {
	all := Versions{}
	for key := range shapes {
		all[key] = Range{0, kmsg.RequestForKey(key).MaxVersion()}
	}
	all[0] = Range{0, 12} // in 13 the topic's name becomes an id; not spoken
	all[1] = Range{0, 14} // since 15 a tag has fields, and tags, of its own; not spoken
	all[2] = Range{1, 7}
	all[3] = Range{0, 12}
	all[8] = Range{0, 9}
	all[9] = Range{0, 9}
	all[10] = Range{0, 4}
	all[18] = Range{0, 4}
	return all
}

// filled returns a request with something in every array, twice nested ones too.
func filled(key, version int16) kmsg.Request {
	text, id := "text", [16]byte{1, 2, 3}
	var req kmsg.Request
	switch key {
	case 0:
		r := kmsg.NewPtrProduceRequest()
		p := kmsg.ProduceRequestTopicPartition{Partition: 7, Records: []byte("records")}
		r.Topics = []kmsg.ProduceRequestTopic{{Topic: text, TopicID: id, Partitions: []kmsg.ProduceRequestTopicPartition{p, p}}}
		req = r
	case 1:
		r := kmsg.NewPtrFetchRequest()
		p := kmsg.NewFetchRequestTopicPartition()
		r.Topics = []kmsg.FetchRequestTopic{{Topic: text, TopicID: id, Partitions: []kmsg.FetchRequestTopicPartition{p, p}}}
		r.ForgottenTopics = []kmsg.FetchRequestForgottenTopic{{Topic: text, TopicID: id, Partitions: []int32{1, 2}}}
		r.ReplicaState.ID, r.ReplicaState.Epoch = 3, 4
		req = r
	case 2:
		r := kmsg.NewPtrListOffsetsRequest()
		r.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: text, Partitions: make([]kmsg.ListOffsetsRequestTopicPartition, 2)}}
		req = r
	case 3:
		r := kmsg.NewPtrMetadataRequest()
		r.Topics = []kmsg.MetadataRequestTopic{{Topic: &text, TopicID: id}, {Topic: &text}}
		req = r
	case 8:
		r := kmsg.NewPtrOffsetCommitRequest()
		p := kmsg.OffsetCommitRequestTopicPartition{Metadata: &text}
		r.InstanceID, r.Topics = &text, []kmsg.OffsetCommitRequestTopic{{Topic: text, Partitions: []kmsg.OffsetCommitRequestTopicPartition{p, p}}}
		req = r
	case 9:
		r := kmsg.NewPtrOffsetFetchRequest()
		r.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: text, Partitions: []int32{1, 2}}}
		r.Groups = []kmsg.OffsetFetchRequestGroup{{Group: text, MemberID: &text, Topics: []kmsg.OffsetFetchRequestGroupTopic{{Topic: text, Partitions: []int32{1, 2}}}}}
		req = r
	case 10:
		r := kmsg.NewPtrFindCoordinatorRequest()
		r.CoordinatorKey, r.CoordinatorKeys = text, []string{text, text}
		req = r
	case 11:
		r := kmsg.NewPtrJoinGroupRequest()
		r.InstanceID, r.Reason = &text, &text
		r.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: text, Metadata: []byte(text)}, {Name: text}}
		req = r
	case 13:
		r := kmsg.NewPtrLeaveGroupRequest()
		r.Members = []kmsg.LeaveGroupRequestMember{{MemberID: text, InstanceID: &text, Reason: &text}}
		req = r
	case 14:
		r := kmsg.NewPtrSyncGroupRequest()
		r.InstanceID, r.Protocol, r.ProtocolType = &text, &text, &text
		r.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: text, MemberAssignment: []byte(text)}}
		req = r
	case 19:
		r := kmsg.NewPtrCreateTopicsRequest()
		r.Topics = []kmsg.CreateTopicsRequestTopic{{
			Topic:             text,
			ReplicaAssignment: []kmsg.CreateTopicsRequestTopicReplicaAssignment{{Replicas: []int32{1, 2}}},
			Configs:           []kmsg.CreateTopicsRequestTopicConfig{{Name: text, Value: &text}},
		}}
		req = r
	case 68:
		r := kmsg.NewPtrConsumerGroupHeartbeatRequest()
		r.InstanceID, r.RackID, r.SubscribedTopicNames, r.SubscribedTopicRegex, r.ServerAssignor = &text, &text, []string{text}, &text, &text
		r.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{{TopicID: id, Partitions: []int32{1, 2}}}
		req = r
	default:
		req = kmsg.RequestForKey(key)
	}
	req.SetVersion(version)
	return req
}

// TestShapesAgreeWithTheDecoder: what kmsg writes, the walk accepts to the last
// byte, and cut anywhere it refuses.
func TestShapesAgreeWithTheDecoder(t *testing.T) {
	for key, versions := range everything() {
		for version := versions.Min; version <= versions.Max; version++ {
			req := filled(key, version)
			body := req.AppendTo(nil)
			w := walk{Reader: kbin.Reader{Src: body}, version: version, flexible: req.IsFlexible()}
			w.fields(shapes[key])
			w.tags()
			require.True(t, w.Ok(), "key %d version %d", key, version)
			require.Empty(t, w.Src, "key %d version %d", key, version)
			for cut := range body {
				require.Error(t, checkShape(key, version, req.IsFlexible(), body[:cut]), "key %d version %d cut to %d", key, version, cut)
			}
		}
	}
}

// frameOf is a request as a client sends it.
func frameOf(req kmsg.Request, correlation int32) []byte {
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("client")).AppendRequest(nil, req, correlation)
}

func TestRequestsSurviveTheWay(t *testing.T) {
	all := everything()
	for key, versions := range all {
		for version := versions.Min; version <= versions.Max; version++ {
			sent := filled(key, version)
			frame := frameOf(sent, 42)
			got, err := parseRequest(frame[4:], all)
			require.NoError(t, err)
			require.Equal(t, int32(42), got.correlation)
			require.Equal(t, sent.AppendTo(nil), got.body.AppendTo(nil), "key %d version %d", key, version)
		}
	}
}

// TestCountsAreNotBelieved: a few bytes that announce four billion tags, or two
// billion topics, cost a few bytes.
func TestCountsAreNotBelieved(t *testing.T) {
	head := func(key, version int16, flexible bool) []byte {
		b := kbin.AppendInt16(nil, key)
		b = kbin.AppendInt16(b, version)
		b = kbin.AppendInt32(b, 1)
		b = kbin.AppendString(b, "")
		if flexible {
			b = append(b, 0)
		}
		return b
	}
	huge := []byte{0xff, 0xff, 0xff, 0xff, 0x0f}
	for name, frame := range map[string][]byte{
		"tags of the header": append(kbin.AppendString([]byte{0, 18, 0, 3, 0, 0, 0, 1}, ""), huge...),
		"tags of the body":   append(append(head(12, 4, true), 2, 'g', 0, 0, 0, 0, 1, 0), huge...),
		"topics":             append(head(3, 1, false), 0x7f, 0xff, 0xff, 0xff),
		"compact topics":     append(head(3, 9, true), huge...),
		"many empty topics":  append(append(head(3, 1, false), 0, 4, 0, 0), make([]byte, 2<<18)...),
		"nothing":            {},
		"half a header":      {0, 3, 0},
	} {
		_, err := parseRequest(frame, everything())
		require.Error(t, err, name)
	}
}

func TestFramesThatAreTooLong(t *testing.T) {
	for _, size := range []uint32{1 << 31, 0xffffffff, maxFrame + 1, 3} {
		r := bufio.NewReader(bytes.NewReader(binary.BigEndian.AppendUint32(nil, size)))
		_, err := readFrame(r, func(int) error { return nil })
		require.ErrorIs(t, err, errFrame)
	}
}

func FuzzParseRequest(f *testing.F) {
	all := everything()
	for key, versions := range all {
		f.Add(frameOf(filled(key, versions.Max), 1)[4:])
		f.Add(frameOf(filled(key, versions.Min), 1)[4:])
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		if req, err := parseRequest(frame, all); err == nil {
			req.body.AppendTo(nil)
		}
	})
}
