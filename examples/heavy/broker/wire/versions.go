package wire

import "github.com/twmb/franz-go/pkg/kmsg"

const keyApiVersions = 18

// Range is what a server speaks of one API.
type Range struct{ Min, Max int16 }

// Versions maps API keys to what is spoken of them; nothing else is answered.
type Versions map[int16]Range

// Supports says whether requests of this key and version can be answered.
func (v Versions) Supports(key, version int16) bool {
	r, ok := v[key]
	return ok && r.Min <= version && version <= r.Max
}

// Answer is the response to an ApiVersions request.
func (v Versions) Answer(req *kmsg.ApiVersionsRequest) *kmsg.ApiVersionsResponse {
	resp := req.ResponseKind().(*kmsg.ApiVersionsResponse)
	for key, r := range v {
		resp.ApiKeys = append(resp.ApiKeys, kmsg.ApiVersionsResponseApiKey{
			ApiKey: key, MinVersion: r.Min, MaxVersion: r.Max,
		})
	}
	return resp
}
