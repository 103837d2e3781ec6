// Package wire carries Kafka's messages over TCP: frames, headers, the versions
// that are spoken, and a server that answers in order. What is inside a message is
// kmsg's business.
package wire

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	maxFrame = 16 << 20 // a frame that announces more ends its connection
	// maxOther is the size of a request without records. Decoded, a byte of it may become
	// a hundred.
	maxOther = 1 << 20
	piece    = 256 << 10 // of a frame: what a client has to send within the server's patience
	maxNamed = 8000      // topics, partitions and tags of a produce: there may be 4,000 partitions
)

var errFrame = errors.New("wire: malformed frame")

// Range is what a server speaks of one API.
type Range struct{ Min, Max int16 }

// Versions maps API keys to what is spoken of them; nothing else is answered.
type Versions map[int16]Range

func (v Versions) supports(key, version int16) bool {
	r, ok := v[key]
	return ok && r.Min <= version && version <= r.Max
}

// Answer is the response to an ApiVersions request. To a newer client, which asks in a
// version that is not spoken, it is an error in version 0, with which that tries again.
func (v Versions) Answer(version int16) kmsg.Response {
	resp := kmsg.NewPtrApiVersionsResponse()
	if resp.Version = version; !v.supports(kmsg.ApiVersions.Int16(), version) {
		resp.Version, resp.ErrorCode = 0, kerr.UnsupportedVersion.Code
	}
	for key, r := range v {
		resp.ApiKeys = append(resp.ApiKeys, kmsg.ApiVersionsResponseApiKey{ApiKey: key, MinVersion: r.Min, MaxVersion: r.Max})
	}
	return resp
}

// parseRequest decodes a frame; of an ApiVersions request, which may be of any version,
// only the header. An error means that the connection cannot go on: of an unknown API or
// version not even the shape of an answer is known.
func parseRequest(frame []byte, apis Versions) (int32, kmsg.Request, error) {
	r := kbin.Reader{Src: frame}
	key, version, correlation := r.Int16(), r.Int16(), r.Int32()
	asks := key == kmsg.ApiVersions.Int16()
	switch {
	case !r.Ok():
		return 0, nil, fmt.Errorf("%w: no header", errFrame)
	case !asks && !apis.supports(key, version):
		return 0, nil, fmt.Errorf("wire: API key %d version %d is not supported", key, version)
	}
	req := kmsg.RequestForKey(key)
	req.SetVersion(version)
	if asks {
		return correlation, req, nil
	}
	r.NullableString() // the client's id
	if req.IsFlexible() {
		for n := r.Uvarint(); n > 0 && r.Ok(); n-- { // tags: whatever they are
			r.Uvarint()
			r.Span(int(r.Uvarint()))
		}
	}
	switch produce := key == kmsg.Produce.Int16(); {
	case !r.Ok():
		return 0, nil, fmt.Errorf("%w: truncated header", errFrame)
	case !produce && len(r.Src) > maxOther:
		return 0, nil, fmt.Errorf("%w: %d bytes for API key %d", errFrame, len(r.Src), key)
	case produce && named(req, r.Src) > maxNamed:
		return 0, nil, fmt.Errorf("%w: more than %d topics, partitions and tags", errFrame, maxNamed)
	}
	if err := req.ReadFrom(r.Src); err != nil {
		return 0, nil, fmt.Errorf("wire: API key %d version %d: %w", key, version, err)
	}
	return correlation, req, nil
}

// named counts the topics, partitions and tags that a produce announces, and stops beyond maxNamed.
// It takes no memory for them: decoded, a topic of three bytes takes 64, and its answer as many.
func named(req kmsg.Request, src []byte) (n int) {
	r := kbin.Reader{Src: src}
	each := func(announced int, read func()) {
		n += max(0, announced)
		for ; announced > 0 && n <= maxNamed; announced-- {
			read()
		}
	}
	text, records, length, tags := r.UnsafeNullableString, r.NullableBytes, r.ArrayLen, func() {}
	if req.IsFlexible() {
		text, records, length = r.UnsafeCompactNullableString, r.CompactNullableBytes, r.CompactArrayLen
		tags = func() { each(int(min(r.Uvarint(), maxNamed+1)), func() { r.Uvarint(); r.Span(int(r.Uvarint())) }) }
	}
	if req.GetVersion() >= 3 {
		text() // the transactional id
	}
	r.Span(6) // acks and timeout
	each(int(length()), func() {
		text()
		each(int(length()), func() { r.Int32(); records(); tags() })
		tags()
	})
	tags()
	return n
}

// appendResponse encodes a whole response frame.
func appendResponse(dst []byte, correlation int32, resp kmsg.Response) []byte {
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint32(dst, uint32(correlation))
	// An ApiVersions answer never has the flexible header: its reader does
	// not know yet what the server speaks.
	if resp.IsFlexible() && resp.Key() != kmsg.ApiVersions.Int16() {
		dst = append(dst, 0)
	}
	dst = resp.AppendTo(dst)
	binary.BigEndian.PutUint32(dst, uint32(len(dst)-4))
	return dst
}
