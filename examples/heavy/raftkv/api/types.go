// Package api is the store over HTTP and JSON.
//
//	POST /v1/put     {"key": K, "value": V}                 → {"revision": R}
//	GET  /v1/get     ?key=K [&consistency=stale]            → {"key": K, "value": V, "revision": R}, or 404
//	GET  /v1/watch   ?key=K &after=R &timeout=30s           → {"key": K, "value": V, "revision": R}, or 204 at the timeout
//	POST /v1/join    {"id": ID, "address": HOST:PORT}       → {}
//	GET  /v1/status                                         → what the node knows of itself
//
// Every call takes timeout=, a Go duration; the default is 5 s, for watch 30 s. Every node answers every call. A call that fails
// is answered by {"error": …}, and a put also by "written": "no" if it certainly was not and never will be, "maybe" otherwise.
package api

import (
	"time"

	"github.com/delayedop/purgatory/examples/heavy/raftkv/node"
)

// Put asks for a write.
type Put struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Written answers a Put.
type Written struct {
	Revision uint64 `json:"revision"`
}

// Found answers a get and a watch.
type Found struct {
	Key      string `json:"key"`
	Value    string `json:"value"`
	Revision uint64 `json:"revision"`
}

// Join asks to add a member.
type Join = node.Member

// What is known of a write that failed.
const (
	WrittenNo    = "no"
	WrittenMaybe = "maybe"
)

// Failure answers a call that failed.
type Failure struct {
	Error   string `json:"error"`
	Written string `json:"written,omitempty"` // of a put: WrittenNo or WrittenMaybe
}

// forwarded marks a request that one node has passed on to another: it is not passed on again.
const forwarded = "Raftkv-Forwarded"

// watchTimeout is how long a watch waits if it does not say.
const watchTimeout = 30 * time.Second
