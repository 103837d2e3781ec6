package main

import (
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// input is what a client asked for.
type input struct {
	put   bool
	key   string
	value string // unique among all puts
}

// output is what it was told.
type output struct {
	unknown  bool // a put that may or may not have happened
	value    string
	revision uint64
}

// history is what all clients have seen. It is safe for concurrent use.
type history struct {
	start time.Time

	mu struct {
		sync.Mutex
		operations []porcupine.Operation
		values     map[string]seen // by key and revision
		wrong      []error
	}
}

// seen is a value that somebody saw at a revision.
type seen struct{ value, by string }

func newHistory() *history {
	h := &history{start: time.Now()}
	h.mu.values = make(map[string]seen)
	return h
}

func (h *history) now() int64 { return int64(time.Since(h.start)) }

// add records a call. One whose outcome is unknown has not ended, and so may take effect at any later time.
func (h *history) add(client int, called int64, in input, out output) {
	returned := h.now()
	if out.unknown {
		returned = math.MaxInt64
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.operations = append(h.mu.operations, porcupine.Operation{
		ClientId: client, Input: in, Call: called, Output: out, Return: returned,
	})
}

// saw records that key had value at a revision. Two calls that say different things about one revision are wrong whenever they
// were made.
func (h *history) saw(by, key, value string, revision uint64) {
	if revision == 0 {
		return
	}
	at := fmt.Sprintf("%s@%d", key, revision)
	h.mu.Lock()
	defer h.mu.Unlock()
	before, ok := h.mu.values[at]
	if ok && before.value != value {
		h.mu.wrong = append(h.mu.wrong, fmt.Errorf("%s: a %s saw %q, and a %s %q", at, before.by, before.value, by, value))
	}
	h.mu.values[at] = seen{value, by}
}

// broken records a promise that was not kept.
func (h *history) broken(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.wrong = append(h.mu.wrong, fmt.Errorf(format, args...))
}

// relevant returns the calls that can matter. A put of unknown outcome whose value nobody read can always be put after everything
// else, so leaving it out changes no verdict; it would only make the search longer.
func (h *history) relevant() []porcupine.Operation {
	h.mu.Lock()
	defer h.mu.Unlock()
	read := make(map[string]bool)
	for _, op := range h.mu.operations {
		if in := op.Input.(input); !in.put {
			read[op.Output.(output).value] = true
		}
	}
	var all []porcupine.Operation
	for _, op := range h.mu.operations {
		if op.Output.(output).unknown && !read[op.Input.(input).value] {
			continue
		}
		all = append(all, op)
	}
	return all
}
