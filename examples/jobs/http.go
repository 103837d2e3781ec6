package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/delayedop/purgatory/purgatory"
)

// Limits of what one client can make the service hold.
const (
	maxBody    = 64 << 10
	maxTypes   = 16
	maxWaiting = 100_000
	maxWait    = 5 * time.Minute
)

const answerTime = 10 * time.Second // that a drain waits for answers

// routes returns a handler for
//
//	POST   /jobs/{type}                           puts a job, the body          201, its id
//	POST   /claims?type=mail&type=print&wait=30s  waits for a job of any type   200, the job; 204: none came
//	DELETE /claims/{id}                           says that the job is done     204; 410: it was given back before
//
// A worker that disconnects gives its job back at once, and one that falls silent when its lease ends.
func (s *service) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /jobs/{type}", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err != nil {
			http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
			return
		}
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, s.put(r.PathValue("type"), string(body)))
	})
	mux.HandleFunc("POST /claims", s.serveClaim)
	mux.HandleFunc("DELETE /claims/{id}", func(w http.ResponseWriter, r *http.Request) {
		switch id, err := strconv.ParseInt(r.PathValue("id"), 10, 64); {
		case err != nil:
			http.Error(w, "an id is a number", http.StatusBadRequest)
		case s.finish(id):
			w.WriteHeader(http.StatusNoContent)
		default:
			http.Error(w, "not in your hands: the lease has ended", http.StatusGone)
		}
	})
	return mux
}

func (s *service) serveClaim(w http.ResponseWriter, r *http.Request) {
	types := r.URL.Query()["type"]
	wait, err := time.ParseDuration(r.URL.Query().Get("wait"))
	if err != nil || wait < 0 || wait > maxWait || len(types) == 0 || len(types) > maxTypes {
		http.Error(w, "want 1 to 16 times ?type=, and &wait= of at most 5m", http.StatusBadRequest)
		return
	}
	j, err := s.claim(r.Context(), wait, types)
	switch {
	case errors.Is(err, purgatory.ErrExpired):
		w.WriteHeader(http.StatusNoContent)
	case err != nil: // the client has left, and nobody reads this; or the service is full or closed
		w.Header().Set("Retry-After", "1")
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	default:
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(j); err != nil || r.Context().Err() != nil {
			s.drop(j.ID, err)
		}
	}
}

// drain ends the service and its server. It ends the claims that wait first, because server.Shutdown would wait
// until they expire. Then server.Shutdown waits until their handlers have answered 503.
func (s *service) drain(server *http.Server) error {
	err := s.close()
	ctx, cancel := context.WithTimeout(context.Background(), answerTime)
	defer cancel()
	if late := server.Shutdown(ctx); late != nil {
		err = errors.Join(err, late, server.Close())
	}
	return err
}
