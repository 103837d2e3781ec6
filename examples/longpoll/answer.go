package main

import (
	"encoding/json"
	"net/http"
	"time"
)

// failure is the answer where offsets are gone or not there yet: it says what there is.
type failure struct {
	extent
	Error string `json:"error"`
}

// refuse answers with an error alone.
func (h *handler) refuse(w http.ResponseWriter, r *http.Request, status int, err error) {
	h.answer(w, r, status, struct {
		Error string `json:"error"`
	}{err.Error()})
}

// comeBack answers what the client may try again soon, here or at another server.
func (h *handler) comeBack(w http.ResponseWriter, r *http.Request, err error) {
	w.Header().Set("Retry-After", "1")
	h.refuse(w, r, http.StatusServiceUnavailable, err)
}

// answer writes an answer. The clock for a client that does not take it begins when the answer is there, and not when the request
// came, which may have waited for minutes.
func (h *handler) answer(w http.ResponseWriter, r *http.Request, status int, body any) {
	text, err := json.Marshal(body)
	if err != nil {
		h.log.Error("answer cannot be written as JSON", "path", r.URL.Path, "error", err)
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(h.writeTimeout)); err != nil {
		h.log.Warn("no write deadline", "error", err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if _, err := w.Write(append(text, '\n')); err != nil {
		h.log.Warn("answer not taken", "path", r.URL.Path, "error", err)
	}
}
