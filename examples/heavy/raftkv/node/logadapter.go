package node

import (
	"context"
	"log/slog"

	"github.com/hashicorp/go-hclog"
)

// engineLog lets the engine, which logs through hclog, log to a slog.Logger: warnings and errors, or everything if that logs
// what is below them. The engine's own level stands in the message.
func engineLog(to *slog.Logger) hclog.Logger {
	level := hclog.Warn
	if to.Enabled(context.Background(), slog.LevelDebug) {
		level = hclog.Debug
	}
	return hclog.FromStandardLogger(slog.NewLogLogger(to.Handler(), slog.LevelWarn), &hclog.LoggerOptions{Level: level})
}
