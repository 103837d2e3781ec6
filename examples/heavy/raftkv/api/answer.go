package api

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/delayedop/purgatory/examples/heavy/raftkv/node"
)

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(body) //nolint:errcheck // the client has gone: there is nobody to tell
}

// fail answers a call that ended with err.
func fail(w http.ResponseWriter, err error) {
	answer(w, status(err), Failure{Error: err.Error()})
}

// failPut answers a put that ended with err, and says whether the write may have happened.
func failPut(w http.ResponseWriter, err error) {
	f := Failure{Error: err.Error(), Written: WrittenNo}
	var p *node.ProposalError
	if errors.As(err, &p) && p.MaybeWritten {
		f.Written = WrittenMaybe
	}
	answer(w, status(err), f)
}

func status(err error) int {
	var other *node.NotLeaderError
	switch {
	case errors.Is(err, node.ErrTooLarge):
		return http.StatusRequestEntityTooLarge
	case errors.Is(err, node.ErrBadKey), errors.Is(err, node.ErrBadTimeout), errors.Is(err, node.ErrBadRevision), errors.Is(err, errBadRequest):
		return http.StatusBadRequest
	case errors.Is(err, errNotFound):
		return http.StatusNotFound
	case errors.Is(err, node.ErrBadMember):
		return http.StatusConflict
	case errors.Is(err, node.ErrFull):
		return http.StatusTooManyRequests
	case errors.Is(err, node.ErrDeadline):
		return http.StatusGatewayTimeout
	case errors.Is(err, node.ErrNoLeader), errors.Is(err, node.ErrLeadershipLost), errors.Is(err, node.ErrClosed),
		errors.Is(err, node.ErrNotAdded), errors.As(err, &other):
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}
