package wire

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// filled is a request with one element in each of its arrays.
func filled(key, version int16) kmsg.Request {
	req := kmsg.RequestForKey(key)
	fill(reflect.ValueOf(req).Elem())
	req.SetVersion(version)
	return req
}

func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				fill(v.Field(i))
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.String:
		v.SetString("s")
	}
}

// TestCountsOfFourBillion: wherever a request says how much of something follows, and it
// is as much as a number can say, the request is refused, before memory is allocated
// for it or a loop has run as often. The counts are those of tags, of arrays, compact or
// not, and of strings: the test writes one over every place of every request.
func TestCountsOfFourBillion(t *testing.T) {
	counts := [][]byte{
		{0xff, 0xff, 0xff, 0xff, 0x0f}, // a compact count
		{0xfe, 0xff, 0xff, 0xff, 0x07}, // the largest that is positive as an int32
		{0x7f, 0xff, 0xff, 0xff},
		{0xff, 0xff, 0xff, 0xff},
	}
	for _, key := range []int16{0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 18, 19, 22, 68} {
		for _, version := range []int16{0, 3, kmsg.RequestForKey(key).MaxVersion() / 2, kmsg.RequestForKey(key).MaxVersion()} {
			if version > kmsg.RequestForKey(key).MaxVersion() {
				continue
			}
			apis := Versions{key: {version, version}}
			whole := frameOf(filled(key, version))[4:]
			_, _, err := parseRequest(whole, apis)
			require.NoError(t, err, "API key %d version %d", key, version)
			for at := 8; at < len(whole); at++ {
				for _, count := range counts {
					for _, rest := range [][]byte{nil, whole[at+1:]} {
						frame := append(append(append([]byte{}, whole[:at]...), count...), rest...)
						requireParsedCheaply(t, frame, apis)
					}
				}
			}
		}
	}
}

func requireParsedCheaply(t *testing.T, frame []byte, apis Versions) {
	t.Helper()
	require.Less(t, allocated(t, frame, apis), uint64(1<<20), "%.100x", frame)
}

// allocated is how many bytes it takes to parse a frame.
func allocated(t *testing.T, frame []byte, apis Versions) uint64 {
	t.Helper()
	var before, after runtime.MemStats
	parsed := make(chan struct{})
	runtime.ReadMemStats(&before)
	go func() {
		defer close(parsed)
		_, _, _ = parseRequest(frame, apis)
	}()
	select {
	case <-parsed:
	case <-time.After(patience): // four billion turns of a loop take longer
		t.Fatalf("still busy with %.100x", frame)
	}
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestALargeRequestIsDecodedInProportion: an array of as many of the smallest elements as
// a request can hold.
func TestALargeRequestIsDecodedInProportion(t *testing.T) {
	const most = 100 // bytes that a byte may become
	size := maxOther - 100
	head := frameOf(filled(3, 9))[4:]
	body := head[:len(head)-len(filled(3, 9).AppendTo(nil))]
	body = binary.AppendUvarint(body, uint64(size/3))
	body = append(body, make([]byte, size)...)
	require.Less(t, allocated(t, body, Versions{3: {0, 9}}), uint64(most*size))
}

// TestAProduceOfManySmallThingsIsRefusedBeforeItIsDecoded: of as many topics, partitions or tags
// as 16 MiB can hold, or announce.
func TestAProduceOfManySmallThingsIsRefusedBeforeItIsDecoded(t *testing.T) {
	for _, version := range []int16{0, 3, 9} {
		length := func(dst []byte, n int) []byte { return kbin.AppendArrayLen(dst, n) }
		text := []byte{0, 0}
		if version >= 9 {
			length, text = kbin.AppendCompactArrayLen, []byte{1}
		}
		head := frameOf(filled(0, version))[4:]
		head = head[:len(head)-len(filled(0, version).AppendTo(nil))]
		if version >= 3 {
			head = append(head, text...) // the transactional id
		}
		head = append(head, 0, 1, 0, 0, 0, 0) // acks and timeout
		topic := append(length(slices.Clone(head), 1), text...)
		second := append(length(append(length(slices.Clone(head), 2), text...), -1<<31), text...) // the first has less than nothing
		frames := map[string][]byte{
			"topics":                    filledUp(head, length, length(text, 0)),
			"topics that do not follow": append(length(slices.Clone(head), maxFrame/3), make([]byte, maxFrame-100)...),
			"partitions":                filledUp(topic, length, make([]byte, 8)),
			"partitions of the second":  filledUp(second, length, make([]byte, 8)),
		}
		if version >= 9 {
			frames["topics"] = filledUp(head, length, []byte{1, 1, 0})
			frames["partitions"] = filledUp(topic, length, make([]byte, 6))
			frames["partitions of the second"] = filledUp(append(slices.Clone(second[:len(second)-1]), 0, 1), length, make([]byte, 6))
			frames["tags"] = tags(length(head, 0))
			frames["tags of a topic"] = tags(length(topic, 0))
			frames["tags of a partition"] = tags(append(length(topic, 1), 0, 0, 0, 0, 0))
		}
		for name, frame := range frames {
			t.Run(fmt.Sprintf("%s in version %d", name, version), func(t *testing.T) {
				requireParsedCheaply(t, frame, Versions{0: {0, 9}})
				_, _, err := parseRequest(frame, Versions{0: {0, 9}})
				require.Error(t, err)
			})
		}
	}
}

// filledUp is a frame with an array of as many elements as fit.
func filledUp(head []byte, length func([]byte, int) []byte, element []byte) []byte {
	n := (maxFrame - len(head) - 10) / len(element)
	return append(length(slices.Clone(head), n), bytes.Repeat(element, n)...)
}

// tags is a frame that ends with as many different tags as fit.
func tags(head []byte) []byte {
	const size = 5 // of a tag without a value
	n := (maxFrame - len(head) - 10) / size
	frame := binary.AppendUvarint(slices.Clone(head), uint64(n))
	for i := range n {
		frame = append(binary.AppendUvarint(frame, uint64(1<<21+i)), 0)
	}
	return frame
}

// TestAProduceToEveryPartitionThereMayBe, each in a topic of its own, is taken. One more is not.
func TestAProduceToEveryPartitionThereMayBe(t *testing.T) {
	for _, version := range []int16{0, 3, 9, 11} {
		req := kmsg.NewPtrProduceRequest()
		req.Version = version
		for i := range 4000 {
			req.Topics = append(req.Topics, kmsg.ProduceRequestTopic{
				Topic:      fmt.Sprint(i),
				Partitions: []kmsg.ProduceRequestTopicPartition{{Records: []byte("records")}},
			})
		}
		_, got, err := parseRequest(frameOf(req)[4:], Versions{0: {0, 11}})
		require.NoError(t, err)
		require.Equal(t, req.AppendTo(nil), got.AppendTo(nil))
		req.Topics[7].Partitions = append(req.Topics[7].Partitions, kmsg.ProduceRequestTopicPartition{Partition: 1})
		_, _, err = parseRequest(frameOf(req)[4:], Versions{0: {0, 11}})
		require.ErrorIs(t, err, errFrame)
	}
}
