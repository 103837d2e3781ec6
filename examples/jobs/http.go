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

	"github.com/delayedop/purgatory/queue"
)

// Limits of what one client can make the service hold.
const (
	maxBody    = 64 << 10
	maxTypes   = 16
	maxWaiting = 100_000
	maxJobs    = 1_000_000
	maxWait    = 5 * time.Minute

	leasesAtMost = 10 // times the lease is how long a worker that extends it may keep a job
)

const answerTime = 10 * time.Second // that a drain waits for answers

// routes returns a handler for
//
//	POST   /jobs/{type}                           puts a job, the body          201, its id
//	POST   /claims?type=mail&type=print&wait=30s  waits for a job of any type   200, the job; 204: none came
//	PUT    /claims/{claim}                        extends the lease             204; 410: it has ended
//	DELETE /claims/{claim}                        says that the job is done     204; 410: it was given back before
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
		id, err := s.put(r.PathValue("type"), string(body))
		if err != nil {
			refuse(w, err)
			return
		}
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, id)
	})
	mux.HandleFunc("POST /claims", s.serveClaim)
	mux.HandleFunc("PUT /claims/{claim}", held(s.extend))
	mux.HandleFunc("DELETE /claims/{claim}", held(s.finish))
	return mux
}

// held returns a handler that calls f, which reports whether the claim's job is in its worker's hands.
func held(f func(claim int64) bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch claim, err := strconv.ParseInt(r.PathValue("claim"), 10, 64); {
		case err != nil:
			http.Error(w, "a claim is a number", http.StatusBadRequest)
		case f(claim):
			w.WriteHeader(http.StatusNoContent)
		default:
			http.Error(w, "not in your hands: the lease has ended", http.StatusGone)
		}
	}
}

func refuse(w http.ResponseWriter, err error) {
	w.Header().Set("Retry-After", "1")
	http.Error(w, err.Error(), http.StatusServiceUnavailable)
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
	case errors.Is(err, queue.ErrExpired):
		w.WriteHeader(http.StatusNoContent)
	case err != nil: // the client has left, and nobody reads this; or the service is full or closed
		refuse(w, err)
	default:
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(j); err != nil || r.Context().Err() != nil {
			s.drop(j.Claim)
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
