// Package wire carries Kafka's messages over TCP: frames, headers, the versions
// that are spoken, and a server that answers in order. What is inside a message is
// kmsg's business.
package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	keyProduce     = 0
	keyApiVersions = 18
	// maxOther is the size of a request without records. Decoded, a byte of it may become
	// a hundred.
	maxOther = 1 << 20
)

// Range is what a server speaks of one API.
type Range struct{ Min, Max int16 }

// Versions maps API keys to what is spoken of them; nothing else is answered.
type Versions map[int16]Range

func (v Versions) supports(key, version int16) bool {
	r, ok := v[key]
	return ok && r.Min <= version && version <= r.Max
}

// answer is the response to an ApiVersions request. To a newer client, which asks in a
// version that is not spoken, it is an error in version 0, with which that tries again.
func (v Versions) answer(version int16) kmsg.Response {
	resp := kmsg.NewPtrApiVersionsResponse()
	if resp.Version = version; !v.supports(keyApiVersions, version) {
		resp.Version, resp.ErrorCode = 0, kerr.UnsupportedVersion.Code
	}
	for key, r := range v {
		resp.ApiKeys = append(resp.ApiKeys, kmsg.ApiVersionsResponseApiKey{ApiKey: key, MinVersion: r.Min, MaxVersion: r.Max})
	}
	return resp
}

// request is one decoded request, or the answer that needs no decoding.
type request struct {
	correlation int32
	body        kmsg.Request
	answer      kmsg.Response
}

// parseRequest decodes a frame. An error means that the connection cannot go
// on: of an unknown API or version not even the shape of an answer is known.
func parseRequest(frame []byte, apis Versions) (request, error) {
	r := kbin.Reader{Src: frame}
	key, version, correlation := r.Int16(), r.Int16(), r.Int32()
	if !r.Ok() {
		return request{}, fmt.Errorf("%w: no header", errFrame)
	}
	switch {
	case key == keyApiVersions:
		return request{correlation: correlation, answer: apis.answer(version)}, nil
	case !apis.supports(key, version):
		return request{}, fmt.Errorf("wire: API key %d version %d is not supported", key, version)
	}
	body := kmsg.RequestForKey(key)
	body.SetVersion(version)
	r.NullableString() // the client's id
	if body.IsFlexible() {
		for n := r.Uvarint(); n > 0 && r.Ok(); n-- { // tags: whatever they are
			r.Uvarint()
			r.Span(int(r.Uvarint()))
		}
	}
	if !r.Ok() {
		return request{}, fmt.Errorf("%w: truncated header", errFrame)
	}
	if key != keyProduce && len(r.Src) > maxOther {
		return request{}, fmt.Errorf("%w: %d bytes for API key %d", errFrame, len(r.Src), key)
	}
	if err := body.ReadFrom(r.Src); err != nil {
		return request{}, fmt.Errorf("wire: API key %d version %d: %w", key, version, err)
	}
	return request{correlation: correlation, body: body}, nil
}

// appendResponse encodes a whole response frame.
func appendResponse(dst []byte, correlation int32, resp kmsg.Response) []byte {
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint32(dst, uint32(correlation))
	// An ApiVersions answer never has the flexible header: its reader does
	// not know yet what the server speaks.
	if resp.IsFlexible() && resp.Key() != keyApiVersions {
		dst = append(dst, 0)
	}
	dst = resp.AppendTo(dst)
	binary.BigEndian.PutUint32(dst, uint32(len(dst)-4))
	return dst
}

// maxFrame is the size of the largest request. A frame that announces more ends its
// connection.
const maxFrame = 16 << 20

var errFrame = errors.New("wire: malformed frame")

// readFrame reads a length, which take is told, and that many bytes. Memory for them is
// allocated as they arrive.
func readFrame(r io.Reader, take func(n int) error) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, err
	}
	size := int(int32(binary.BigEndian.Uint32(length[:])))
	if size < 4 || size > maxFrame {
		return nil, fmt.Errorf("%w: length %d, allowed 4..%d", errFrame, size, maxFrame)
	}
	if err := take(size); err != nil {
		return nil, err
	}
	var frame bytes.Buffer
	_, err := io.CopyN(&frame, r, int64(size))
	return frame.Bytes(), err
}
