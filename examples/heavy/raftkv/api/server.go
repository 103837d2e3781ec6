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

	"github.com/delayedop/purgatory/examples/heavy/raftkv/kv"
	"github.com/delayedop/purgatory/examples/heavy/raftkv/node"
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
	mux.HandleFunc("POST /v1/put", call(node.DefaultTimeout, failPut, s.put))
	mux.HandleFunc("GET /v1/get", call(node.DefaultTimeout, fail, s.get))
	mux.HandleFunc("GET /v1/watch", call(watchTimeout, fail, s.watch))
	mux.HandleFunc("POST /v1/join", call(node.DefaultTimeout, fail, s.join))
	mux.HandleFunc("GET /v1/status", call(node.DefaultTimeout, fail, s.status))
	mux.HandleFunc("GET "+node.PathLeaderIndex, call(time.Second, fail, s.leaderIndex))
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

// handler answers a call: with a body, or with an error, or with neither if it has answered itself.
type handler func(w http.ResponseWriter, r *http.Request, timeout time.Duration) (body any, err error)

// call makes an HTTP handler that parses the timeout and writes what h returns.
func call(byDefault time.Duration, fail func(http.ResponseWriter, error), h handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		timeout, err := parseTimeout(r.URL.Query(), byDefault)
		var body any
		if err == nil {
			body, err = h(w, r, timeout)
		}
		switch {
		case err != nil:
			fail(w, err)
		case body != nil:
			answer(w, http.StatusOK, body)
		}
	}
}

func (s *Server) put(w http.ResponseWriter, r *http.Request, timeout time.Duration) (any, error) {
	var p Put
	if err := readJSON(w, r, &p, 6*s.node.MaxValue()+6*node.MaxKey+64); err != nil {
		return nil, err
	}
	revision, err := s.node.Propose(r.Context(), p.Key, []byte(p.Value), timeout)
	if leader := elsewhere(r, err); leader.ID != "" {
		return nil, s.forward(w, r, leader, p, timeout)
	}
	return Written{revision}, err
}

func (s *Server) get(_ http.ResponseWriter, r *http.Request, timeout time.Duration) (any, error) {
	q := r.URL.Query()
	key := q.Get("key")
	var e kv.Entry
	var found bool
	var err error
	switch c := q.Get("consistency"); c {
	case "stale":
		e, found = s.node.ReadStale(key)
	case "", "linearizable":
		e, found, err = s.node.Read(r.Context(), key, timeout)
	default:
		err = fmt.Errorf("%w: consistency %q is neither linearizable nor stale", errBadRequest, c)
	}
	if err == nil && !found {
		err = fmt.Errorf("%w: key %.100q", errNotFound, key)
	}
	return Found{key, string(e.Value), e.Revision}, err
}

func (s *Server) watch(w http.ResponseWriter, r *http.Request, timeout time.Duration) (any, error) {
	q := r.URL.Query()
	after := uint64(0)
	if a := q.Get("after"); a != "" {
		var err error
		if after, err = strconv.ParseUint(a, 10, 64); err != nil {
			return nil, fmt.Errorf("%w: after: %w", errBadRequest, err)
		}
	}
	key := q.Get("key")
	e, err := s.node.Watch(r.Context(), key, after, timeout)
	if errors.Is(err, node.ErrDeadline) {
		w.WriteHeader(http.StatusNoContent)
		return nil, nil
	}
	return Found{key, string(e.Value), e.Revision}, err
}

func (s *Server) join(w http.ResponseWriter, r *http.Request, timeout time.Duration) (any, error) {
	var m Join
	if err := readJSON(w, r, &m, 4096); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	err := s.node.AddMember(ctx, m)
	if leader := elsewhere(r, err); leader.ID != "" {
		return nil, s.forward(w, r, leader, m, timeout)
	}
	return struct{}{}, err
}

func (s *Server) status(http.ResponseWriter, *http.Request, time.Duration) (any, error) {
	return s.node.Status(), nil
}

func (s *Server) leaderIndex(_ http.ResponseWriter, r *http.Request, timeout time.Duration) (any, error) {
	index, err := s.node.LeaderIndex(r.Context(), timeout)
	return node.LeaderIndexAnswer{Index: index}, err
}

var (
	errBadRequest = errors.New("raftkv: bad request")
	errNotFound   = errors.New("raftkv: never written")
)

func parseTimeout(q url.Values, byDefault time.Duration) (time.Duration, error) {
	t := q.Get("timeout")
	if t == "" {
		return byDefault, nil
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
