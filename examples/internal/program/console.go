package program

import (
	"fmt"
	"io"
	"slices"
	"sync"
	"time"
)

// Console writes lines with the time since its start in front. It is safe for concurrent use.
type Console struct {
	start time.Time
	mu    sync.Mutex
	out   io.Writer
}

// NewConsole returns a console whose time begins now.
func NewConsole(out io.Writer) *Console { return &Console{start: time.Now(), out: out} }

// Printf writes one line.
func (c *Console) Printf(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprintf(c.out, "%5.1fs  %s\n", time.Since(c.start).Seconds(), fmt.Sprintf(format, args...))
}

// Spread says how measured durations are spread, in some words for the end of a line. It sorts them.
func Spread(all []time.Duration) string {
	if len(all) == 0 {
		return "none was measured"
	}
	slices.Sort(all)
	at := func(percent int) time.Duration {
		d := all[(len(all)-1)*percent/100]
		if d.Abs() < time.Millisecond {
			return d.Round(time.Microsecond)
		}
		return d.Round(10 * time.Microsecond)
	}
	return fmt.Sprintf("p50 %v   p99 %v   max %v", at(50), at(99), at(100))
}
