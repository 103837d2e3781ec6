package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/delayedop/purgatory/examples/raftkv/node"
)

// elsewhere returns the leader that a call has to be passed on to: none if it was passed on already.
func elsewhere(r *http.Request, err error) node.Member {
	var other *node.NotLeaderError
	if errors.As(err, &other) && r.Header.Get(forwarded) == "" {
		return other.Leader
	}
	return node.Member{}
}

// forward passes a call on to the leader, and its answer back. The call ends with its timeout, whatever the leader does;
// fail then answers it.
func (s *Server) forward(
	w http.ResponseWriter, r *http.Request, leader node.Member, body any, timeout time.Duration,
	fail func(http.ResponseWriter, error),
) {
	content, err := json.Marshal(body)
	if err != nil {
		fail(w, err)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	to := "http://" + leader.Address + r.URL.Path + "?timeout=" + timeout.String()
	req, err := http.NewRequestWithContext(ctx, r.Method, to, bytes.NewReader(content))
	if err != nil {
		fail(w, err)
		return
	}
	req.Header.Set(forwarded, s.node.ID())
	req.Header.Set("Content-Type", "application/json")
	resp, err := s.node.Remote().Do(req)
	if err != nil {
		fail(w, forwardError(err))
		return
	}
	defer resp.Body.Close()
	// Read as a whole before anything is written: half an answer must not look like one.
	reply, err := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	if err != nil {
		fail(w, forwardError(err))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(resp.StatusCode)
	w.Write(reply) //nolint:errcheck // the client has gone: there is nobody to tell
}

// forwardError says whether the leader may have got the call: certainly not if there never was a connection.
func forwardError(err error) error {
	cause := node.ErrNoLeader
	if errors.Is(err, context.DeadlineExceeded) {
		cause = node.ErrDeadline
	}
	return &node.ProposalError{MaybeWritten: !unreached(err), Cause: errors.Join(cause, err)}
}

// unreached reports whether a request failed before there was a connection.
func unreached(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}
