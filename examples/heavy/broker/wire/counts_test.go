package wire

import (
	"encoding/binary"
	"reflect"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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
		t.Fatalf("still busy with %x", frame)
	}
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20), "%x", frame)
}

// TestALargeRequestIsDecodedInProportion: arrays of as many of the smallest elements as
// a request can hold, with and without the elements themselves.
func TestALargeRequestIsDecodedInProportion(t *testing.T) {
	const most = 100 // bytes that a byte may become
	for key, size := range map[int16]int{0: maxFrame / 4, 3: maxOther - 100} {
		version := int16(9)
		head := frameOf(filled(key, version))[4:]
		head = head[:len(head)-len(filled(key, version).AppendTo(nil))]
		body := head
		if key == 0 {
			body = append(body, 0, 0, 1, 0, 0, 0, 0) // no transactional id, acks=1, no timeout
		}
		body = binary.AppendUvarint(body, uint64(size/3))
		body = append(body, make([]byte, size)...)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _, _ = parseRequest(body, Versions{key: {0, version}})
		runtime.ReadMemStats(&after)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(most*size), "API key %d", key)
	}
}
