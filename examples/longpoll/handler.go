package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/delayedop/purgatory/purgatory"
)

// handler answers GETs and POSTs. It is safe for concurrent use.
type handler struct {
	limits       limits
	writeTimeout time.Duration
	log          *slog.Logger
	topics       *topics
	waiting      *purgatory.Purgatory[string] // GETs, by topic
	draining     atomic.Bool                  // shutdown has begun: nothing new is published
}

func (h *handler) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /topics/{topic}", h.poll)
	mux.HandleFunc("POST /topics/{topic}", h.publish)
	return mux
}

// polled is the answer to a GET.
type polled struct {
	Topic string `json:"topic"`
	extent
	Messages []message `json:"messages"`
}

// poll answers with the messages after an offset, and waits for them if there are too few.
func (h *handler) poll(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("topic")
	if err := checkTopicName(name); err != nil {
		h.refuse(w, r, http.StatusBadRequest, err)
		return
	}
	q, err := parseQuery(r.URL.RawQuery, h.limits)
	if err != nil {
		h.refuse(w, r, http.StatusBadRequest, err)
		return
	}
	now := h.topics.extent(name)
	switch {
	case q.after == newestSoFar:
		q.after = now.Newest
	case q.after > now.Newest:
		// The server keeps topics in memory: after a restart a client may know more than it.
		h.answer(w, r, http.StatusRequestedRangeNotSatisfiable, failure{now, fmt.Sprintf(
			"after %d: topic %q has come to offset %d only", q.after, name, now.Newest)})
		return
	}
	if err := h.await(r.Context(), name, q); err != nil {
		h.notSatisfied(w, r, err)
		return
	}
	// Read only now, on the goroutine of this request: what tried the condition did so for everybody who waits.
	messages, now := h.topics.read(name, q.after)
	if now.lost(q.after) {
		h.answer(w, r, http.StatusGone, failure{now, fmt.Sprintf(
			"messages after %d are gone: the oldest that topic %q keeps is %d", q.after, name, now.Oldest)})
		return
	}
	h.answer(w, r, http.StatusOK, polled{Topic: name, extent: now, Messages: messages})
}

// await returns nil when there is something to answer: enough messages, a loss, or the timeout.
func (h *handler) await(ctx context.Context, name string, q query) error {
	position := q.after + q.min
	ready := func() bool {
		now := h.topics.extent(name)
		return now.Newest >= position || now.lost(q.after)
	}
	err := h.waiting.AwaitAt(ctx, q.timeout, ready, purgatory.KeyPosition[string]{Key: name, Position: position})
	if errors.Is(err, purgatory.ErrExpired) {
		return nil
	}
	return err
}

// notSatisfied answers a GET that was not allowed to wait to its end.
func (h *handler) notSatisfied(w http.ResponseWriter, r *http.Request, err error) {
	switch {
	case r.Context().Err() != nil:
		h.log.Debug("client has gone", "path", r.URL.Path, "cause", err)
	case errors.Is(err, purgatory.ErrFull):
		h.comeBack(w, r, fmt.Errorf("%d requests are waiting already", h.limits.waiting))
	case errors.Is(err, purgatory.ErrClosed):
		h.comeBack(w, r, errShuttingDown)
	default:
		h.refuse(w, r, http.StatusInternalServerError, err)
	}
}

var errShuttingDown = errors.New("the server is shutting down")

// published is the answer to a POST.
type published struct {
	Topic  string `json:"topic"`
	Offset int64  `json:"offset"`
}

// publish appends a message and has the GETs that it satisfies answered.
func (h *handler) publish(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("topic")
	if err := checkTopicName(name); err != nil {
		h.refuse(w, r, http.StatusBadRequest, err)
		return
	}
	if h.draining.Load() {
		h.comeBack(w, r, errShuttingDown)
		return
	}
	body, status, err := h.readMessage(w, r)
	if err != nil {
		h.refuse(w, r, status, err)
		return
	}
	offset, err := h.topics.append(name, body)
	if err != nil {
		h.refuse(w, r, http.StatusInsufficientStorage, err)
		return
	}
	h.waiting.SignalUpTo(name, offset) // first the state has changed, then those who wait are told
	h.answer(w, r, http.StatusCreated, published{Topic: name, Offset: offset})
}

func (h *handler) readMessage(w http.ResponseWriter, r *http.Request) (body string, status int, err error) {
	if err := http.NewResponseController(w).SetReadDeadline(time.Now().Add(h.writeTimeout)); err != nil {
		return "", http.StatusInternalServerError, err
	}
	read, err := io.ReadAll(http.MaxBytesReader(w, r.Body, int64(h.limits.message)))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return "", http.StatusRequestEntityTooLarge, fmt.Errorf("message is larger than %d bytes", tooLarge.Limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "", http.StatusRequestTimeout, fmt.Errorf("message was not sent within %v", h.writeTimeout)
	case err != nil:
		return "", http.StatusBadRequest, fmt.Errorf("reading the message: %w", err)
	case len(read) == 0:
		return "", http.StatusBadRequest, errors.New("message is empty: send it as the body of the request")
	case !utf8.Valid(read):
		return "", http.StatusBadRequest, errors.New("message is not text: it must be valid UTF-8")
	}
	return string(read), 0, nil
}
