package wire

import (
	"encoding/binary"
	"fmt"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// request is one decoded request and what its answer needs.
type request struct {
	correlation int32
	body        kmsg.Request
	// unknownApiVersions: a newer client asked in a version we cannot read.
	// The protocol has one answer to it, in version 0, and the client tries
	// again with what that lists.
	unknownApiVersions bool
}

// parseRequest decodes a frame. An error means that the connection cannot go
// on: of an unknown API or version not even the shape of an answer is known.
func parseRequest(frame []byte, apis Versions) (request, error) {
	r := kbin.Reader{Src: frame}
	key, version, correlation := r.Int16(), r.Int16(), r.Int32()
	if !r.Ok() {
		return request{}, fmt.Errorf("%w: no header", errFrame)
	}
	if key == keyApiVersions && !apis.Supports(key, version) {
		return request{correlation: correlation, body: &kmsg.ApiVersionsRequest{}, unknownApiVersions: true}, nil
	}
	if !apis.Supports(key, version) {
		return request{}, fmt.Errorf("wire: API key %d version %d is not supported", key, version)
	}
	body := kmsg.RequestForKey(key)
	body.SetVersion(version)
	r.NullableString() // the client's id
	if body.IsFlexible() {
		header := walk{Reader: r, flexible: true}
		header.tags()
		r = header.Reader
	}
	if !r.Ok() {
		return request{}, fmt.Errorf("%w: truncated header", errFrame)
	}
	if err := checkShape(key, version, body.IsFlexible(), r.Src); err != nil {
		return request{}, err
	}
	if err := body.ReadFrom(r.Src); err != nil {
		return request{}, fmt.Errorf("wire: API key %d version %d: %w", key, version, err)
	}
	return request{correlation: correlation, body: body}, nil
}

// answerUnknownApiVersions lists what is spoken, in the one version that
// every client can read.
func answerUnknownApiVersions(apis Versions) kmsg.Response {
	resp := apis.Answer(&kmsg.ApiVersionsRequest{})
	resp.ErrorCode = kerr.UnsupportedVersion.Code
	return resp
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
	return finishFrame(resp.AppendTo(dst))
}
