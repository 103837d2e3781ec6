package node

import (
	"context"
	"io"
	"log"
	"log/slog"

	"github.com/hashicorp/go-hclog"
)

// logAdapter lets the engine, which logs through hclog, log to a slog.Logger. It embeds hclog's null logger for the methods
// that the engine does not use.
type logAdapter struct {
	hclog.Logger
	to *slog.Logger
}

func newLogAdapter(to *slog.Logger) *logAdapter {
	return &logAdapter{Logger: hclog.NewNullLogger(), to: to}
}

// Log logs at a level.
func (a *logAdapter) Log(level hclog.Level, msg string, args ...any) {
	a.to.Log(context.Background(), slogLevel(level), msg, args...)
}

// Trace drops what is too fine for slog.
func (a *logAdapter) Trace(string, ...any) {}

// Debug logs at the level of its name, as the next three do.
func (a *logAdapter) Debug(msg string, args ...any) { a.to.Debug(msg, args...) }

// Info logs.
func (a *logAdapter) Info(msg string, args ...any) { a.to.Info(msg, args...) }

// Warn logs.
func (a *logAdapter) Warn(msg string, args ...any) { a.to.Warn(msg, args...) }

// Error logs.
func (a *logAdapter) Error(msg string, args ...any) { a.to.Error(msg, args...) }

// With returns a logger with more attributes.
func (a *logAdapter) With(args ...any) hclog.Logger { return newLogAdapter(a.to.With(args...)) }

// Named returns a logger that says which part of the engine logs.
func (a *logAdapter) Named(name string) hclog.Logger {
	return newLogAdapter(a.to.With("part", name))
}

// ResetNamed is Named.
func (a *logAdapter) ResetNamed(name string) hclog.Logger { return a.Named(name) }

// StandardLogger returns a logger of package log.
func (a *logAdapter) StandardLogger(*hclog.StandardLoggerOptions) *log.Logger {
	return slog.NewLogLogger(a.to.Handler(), slog.LevelInfo)
}

// StandardWriter returns a writer that drops what it is given.
func (a *logAdapter) StandardWriter(*hclog.StandardLoggerOptions) io.Writer { return io.Discard }

func slogLevel(l hclog.Level) slog.Level {
	switch l {
	case hclog.Error:
		return slog.LevelError
	case hclog.Warn:
		return slog.LevelWarn
	case hclog.Info:
		return slog.LevelInfo
	default:
		return slog.LevelDebug
	}
}
