package purgatorytest

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"github.com/delayedop/purgatory/purgatory"
)

// forgotten is a logger's handler that keeps the records of checks that were forgotten, and
// handles no others. It is safe for concurrent use.
type forgotten struct {
	mu struct {
		sync.Mutex
		lines strings.Builder
	}
}

// Enabled leaves panics, whose level is Error, to the default logger.
func (f *forgotten) Enabled(_ context.Context, level slog.Level) bool { return level == slog.LevelWarn }

// Handle implements [slog.Handler].
func (f *forgotten) Handle(_ context.Context, r slog.Record) error {
	if r.Message != purgatory.EventForgotten {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	about := map[string]slog.Value{}
	r.Attrs(func(a slog.Attr) bool { about[a.Key] = a.Value; return true })
	fmt.Fprintf(&f.mu.lines, "\n\t%v waited for %v", about["operation"], about["key"])
	return nil
}

// WithAttrs implements [slog.Handler].
func (f *forgotten) WithAttrs([]slog.Attr) slog.Handler { return f }

// WithGroup implements [slog.Handler].
func (f *forgotten) WithGroup(string) slog.Handler { return f }

func (f *forgotten) text() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.lines.String()
}
