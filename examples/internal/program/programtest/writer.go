// Package programtest tests example programs: what they write, and what they refuse.
package programtest

import (
	"strings"
	"sync"
)

// Writer keeps what is written, and calls Reached each time when that contains At. It is safe for concurrent use.
type Writer struct {
	At      string
	Reached func() // must not write

	mu      sync.Mutex
	written strings.Builder
}

// Write adds to what is kept.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, err := w.written.Write(p)
	if strings.Contains(w.written.String(), w.At) {
		w.Reached()
	}
	return n, err
}

// String returns what has been written.
func (w *Writer) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.written.String()
}
