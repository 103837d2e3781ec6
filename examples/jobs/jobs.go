// Jobs hands out jobs over HTTP: each to one of the workers that wait for its type.
//
//	POST   /jobs/{type}                           puts a job, the body          201, its id
//	POST   /claims?type=mail&type=print&wait=30s  waits for a job of any type   200, the job; 204: none came
//	DELETE /claims/{id}                           says that the job is done     204; 410: it was given back before
//
// A worker that disconnects gives its job back at once, and one that falls silent when its lease ends.
package main

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// Limits of what one client can make the service hold.
const (
	maxBody    = 64 << 10
	maxTypes   = 16
	maxWaiting = 100_000
	maxWait    = 5 * time.Minute
)

type job struct {
	ID   int64  `json:"id"`
	Type string `json:"type"`
	Body string `json:"body"`
}

// service is safe for concurrent use.
type service struct {
	workers *purgatory.DelayedOperationPurgatory[string] // claims that wait, by type of job
	leases  *purgatory.DelayedOperationPurgatory[int64]  // jobs in workers' hands, by id
	lease   time.Duration

	mu struct {
		sync.Mutex
		left map[string][]job // by type; no entry is empty
		counts
	}
}

// counts say what has become of the jobs: put + givenBack = handedOut + left.
type counts struct{ put, handedOut, givenBack, done, left int64 }

func newService(lease time.Duration) (*service, error) {
	workers, err := purgatory.New[string]("workers", purgatory.WithFirstInFirstOut(), purgatory.WithMaxPending(maxWaiting))
	if err != nil {
		return nil, err
	}
	leases, err := purgatory.New[int64]("leases")
	if err != nil {
		return nil, errors.Join(err, workers.Close())
	}
	s := &service{workers: workers, leases: leases, lease: lease}
	s.mu.left = make(map[string][]job)
	return s, nil
}

func (s *service) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /jobs/{type}", s.put)
	mux.HandleFunc("POST /claims", s.claim)
	mux.HandleFunc("DELETE /claims/{id}", s.finish)
	return mux
}

// close ends the claims that wait, with 503, and gives back the jobs in workers' hands. Call it
// before http.Server.Shutdown, which waits for handlers.
func (s *service) close() error { return errors.Join(s.workers.Close(), s.leases.Close()) }

func (s *service) counts() counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.counts
}

func (s *service) put(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	s.mu.Lock()
	s.mu.put++
	id := s.mu.put
	s.mu.Unlock()
	s.offer(job{ID: id, Type: r.PathValue("type"), Body: string(body)})
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, strconv.FormatInt(id, 10))
}

// offer adds a job first, and then has those who wait for its type tried in order.
func (s *service) offer(j job) {
	s.mu.Lock()
	s.mu.left[j.Type] = append(s.mu.left[j.Type], j)
	s.mu.counts.left++
	s.mu.Unlock()
	s.workers.CheckAndCompleteInOrder(j.Type)
}

// take is the condition of a claim: it takes a job, if there is one. Whoever was told true has the job.
func (s *service) take(types []string) (j job, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range types {
		jobs := s.mu.left[t]
		if len(jobs) == 0 {
			continue
		}
		if j, s.mu.left[t] = jobs[0], jobs[1:]; len(jobs) == 1 {
			delete(s.mu.left, t)
		}
		s.mu.counts.left--
		s.mu.handedOut++
		return j, true
	}
	return job{}, false
}

func (s *service) claim(w http.ResponseWriter, r *http.Request) {
	types := r.URL.Query()["type"]
	wait, err := time.ParseDuration(r.URL.Query().Get("wait"))
	if err != nil || wait < 0 || wait > maxWait || len(types) == 0 || len(types) > maxTypes {
		http.Error(w, "want 1 to 16 times ?type=, and &wait= of at most 5m", http.StatusBadRequest)
		return
	}
	j, err := purgatory.AwaitValue(r.Context(), s.workers, wait, func() (job, bool) { return s.take(types) }, types...)
	switch {
	case errors.Is(err, purgatory.ErrExpired):
		w.WriteHeader(http.StatusNoContent)
		return
	case err == nil:
		// If the client has left, the job is in our hands nevertheless: a yes wins.
		if _, err = s.leases.TryCompleteElseWatch(&lease{service: s, job: j}, s.lease, j.ID); err != nil {
			s.giveBack(j)
		}
	}
	if err != nil { // the client has left (nobody reads this), or the service is full or closed
		w.Header().Set("Retry-After", "1")
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(j); err != nil || r.Context().Err() != nil {
		s.leases.CancelForKey(j.ID, r.Context().Err())
	}
}

// lease is a job in a worker's hands. It is forced when the job is done; any other end gives the job back.
type lease struct {
	operation.DelayedOperation
	service *service
	job     job
}

func (l *lease) TryComplete() bool { return false }
func (l *lease) OnExpiration()     {}
func (l *lease) OnComplete() {
	if l.Outcome() != operation.Forced {
		l.service.giveBack(l.job)
	}
}

func (s *service) giveBack(j job) {
	s.mu.Lock()
	s.mu.givenBack++
	s.mu.Unlock()
	s.offer(j)
}

func (s *service) finish(w http.ResponseWriter, r *http.Request) {
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if err != nil {
		http.Error(w, "an id is a number", http.StatusBadRequest)
		return
	}
	if s.leases.CompleteForKey(id) == 0 { // an operation ends once: this call has ended it, or another one has
		http.Error(w, "not in your hands: the lease has ended", http.StatusGone)
		return
	}
	s.mu.Lock()
	s.mu.done++
	s.mu.Unlock()
	w.WriteHeader(http.StatusNoContent)
}
