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

	"github.com/delayedop/purgatory/examples/heavy/raftkv/node"
)

// elsewhere returns the leader that a call has to be passed on to: none if it was passed on already.
func elsewhere(r *http.Request, err error) node.Member {
	var other *node.NotLeaderError
	if errors.As(err, &other) && r.Header.Get(forwarded) == "" {
		return other.Leader
	}
	return node.Member{}
}

// forward passes a call on to the leader, and its answer back. The call ends with its timeout, whatever the leader does.
func (s *Server) forward(w http.ResponseWriter, r *http.Request, leader node.Member, body any, timeout time.Duration) error {
	content, err := json.Marshal(body)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	to := "http://" + leader.Address + r.URL.Path + "?timeout=" + timeout.String()
	req, err := http.NewRequestWithContext(ctx, r.Method, to, bytes.NewReader(content))
	if err != nil {
		return err
	}
	req.Header.Set(forwarded, s.node.ID())
	req.Header.Set("Content-Type", "application/json")
	resp, err := s.node.Remote().Do(req)
	if err != nil {
		return forwardError(err)
	}
	defer resp.Body.Close()
	// Read as a whole before anything is written: half an answer must not look like one.
	reply, err := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	if err != nil {
		return forwardError(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(resp.StatusCode)
	w.Write(reply) //nolint:errcheck // the client has gone: there is nobody to tell
	return nil
}

// forwardError says whether the leader may have got the call: certainly not if there never was a connection.
func forwardError(err error) error {
	cause := node.ErrNoLeader
	if errors.Is(err, context.DeadlineExceeded) {
		cause = node.ErrDeadline
	}
	return &node.ProposalError{MaybeWritten: !Unreached(err), Cause: errors.Join(cause, err)}
}

// Unreached reports whether a request failed before there was a connection.
func Unreached(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}
