package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/delayedop/purgatory/examples/raftkv/node"
)

// Server answers the calls of clients and of other nodes.
type Server struct {
	node *node.Node
	http *http.Server
	done chan struct{} // closed when Serve has returned
	err  error         // why
}

// Serve starts to answer at the node's address. Close ends it.
func Serve(n *node.Node, log *slog.Logger) *Server {
	s := &Server{node: n, done: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/put", s.put)
	mux.HandleFunc("GET /v1/get", s.get)
	mux.HandleFunc("GET /v1/watch", s.watch)
	mux.HandleFunc("POST /v1/join", s.join)
	mux.HandleFunc("GET /v1/status", s.status)
	mux.HandleFunc("GET "+node.PathLeaderIndex, s.leaderIndex)
	s.http = &http.Server{
		Handler: mux, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, IdleTimeout: 2 * time.Minute,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	go func() {
		defer close(s.done)
		s.err = s.http.Serve(n.HTTPListener())
	}()
	return s
}

// Failed is closed when the server answers no more.
func (s *Server) Failed() <-chan struct{} { return s.done }

// Close closes the node, which answers every call that waits, and then the connections, once the answers are written or
// ctx has ended.
func (s *Server) Close(ctx context.Context) error {
	s.node.EndWaits()
	err := s.http.Shutdown(ctx)
	s.http.Close()
	<-s.done
	if !errors.Is(s.err, http.ErrServerClosed) {
		err = errors.Join(err, s.err)
	}
	return errors.Join(err, s.node.Close())
}

func (s *Server) put(w http.ResponseWriter, r *http.Request) {
	timeout, err := parseTimeout(r.URL.Query(), "")
	if err != nil {
		failPut(w, err)
		return
	}
	var p Put
	if err := readJSON(w, r, &p, 6*s.node.MaxValue()+6*node.MaxKey+64); err != nil {
		failPut(w, err)
		return
	}
	revision, err := s.node.Propose(r.Context(), p.Key, []byte(p.Value), timeout)
	if leader := elsewhere(r, err); leader.ID != "" {
		s.forward(w, r, leader, p, timeout, failPut)
		return
	}
	if err != nil {
		failPut(w, err)
		return
	}
	answer(w, http.StatusOK, Written{revision})
}

func (s *Server) get(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	timeout, err := parseTimeout(q, "")
	if err != nil {
		fail(w, err)
		return
	}
	key := q.Get("key")
	switch c := q.Get("consistency"); c {
	case "stale":
		e, found := s.node.ReadStale(key)
		respond(w, key, string(e.Value), e.Revision, found)
	case "", "linearizable":
		e, found, err := s.node.Read(r.Context(), key, timeout)
		if err != nil {
			fail(w, err)
			return
		}
		respond(w, key, string(e.Value), e.Revision, found)
	default:
		fail(w, fmt.Errorf("%w: consistency %q is neither linearizable nor stale", errBadRequest, c))
	}
}

func respond(w http.ResponseWriter, key, value string, revision uint64, found bool) {
	if !found {
		answer(w, http.StatusNotFound, Failure{Error: fmt.Sprintf("key %.100q was never written", key)})
		return
	}
	answer(w, http.StatusOK, Found{key, value, revision})
}

func (s *Server) watch(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	timeout, err := parseTimeout(q, watchTimeout)
	if err != nil {
		fail(w, err)
		return
	}
	var after uint64
	if a := q.Get("after"); a != "" {
		if after, err = strconv.ParseUint(a, 10, 64); err != nil {
			fail(w, fmt.Errorf("%w: after: %w", errBadRequest, err))
			return
		}
	}
	key := q.Get("key")
	e, err := s.node.Watch(r.Context(), key, after, timeout)
	switch {
	case errors.Is(err, node.ErrDeadline):
		w.WriteHeader(http.StatusNoContent)
	case err != nil:
		fail(w, err)
	default:
		answer(w, http.StatusOK, Found{key, string(e.Value), e.Revision})
	}
}

func (s *Server) join(w http.ResponseWriter, r *http.Request) {
	timeout, err := parseTimeout(r.URL.Query(), "")
	if err != nil {
		fail(w, err)
		return
	}
	var m Join
	if err := readJSON(w, r, &m, 4096); err != nil {
		fail(w, err)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	err = s.node.AddMember(ctx, m)
	if leader := elsewhere(r, err); leader.ID != "" {
		s.forward(w, r, leader, m, timeout, fail)
		return
	}
	if err != nil {
		fail(w, err)
		return
	}
	answer(w, http.StatusOK, struct{}{})
}

func (s *Server) status(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, s.node.Status())
}

func (s *Server) leaderIndex(w http.ResponseWriter, r *http.Request) {
	timeout, err := parseTimeout(r.URL.Query(), "1s")
	if err != nil {
		fail(w, err)
		return
	}
	index, err := s.node.LeaderIndex(r.Context(), timeout)
	if err != nil {
		fail(w, err)
		return
	}
	answer(w, http.StatusOK, node.LeaderIndexAnswer{Index: index})
}

var errBadRequest = errors.New("raftkv: bad request")

func parseTimeout(q url.Values, byDefault string) (time.Duration, error) {
	t := q.Get("timeout")
	if t == "" {
		t = byDefault
	}
	if t == "" {
		return node.DefaultTimeout, nil
	}
	d, err := time.ParseDuration(t)
	if err != nil {
		return 0, fmt.Errorf("%w: timeout: %w", errBadRequest, err)
	}
	return d, nil
}

func readJSON(w http.ResponseWriter, r *http.Request, into any, most int) error {
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, int64(most)))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	var long *http.MaxBytesError
	switch {
	case errors.As(err, &long):
		return fmt.Errorf("%w: a request of over %d bytes", node.ErrTooLarge, long.Limit)
	case err != nil:
		return fmt.Errorf("%w: %w", errBadRequest, err)
	case d.More():
		return fmt.Errorf("%w: more than one JSON value", errBadRequest)
	}
	return nil
}
