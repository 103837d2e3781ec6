//go:build interleave

package sched

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"
)

// note records a step of the current goroutine, with its file and line, if a schedule is
// replayed.
func (s *run) note(what string) {
	if !s.record || s.current == nil {
		return
	}
	var pcs [16]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])])
	for {
		f, more := frames.Next()
		if !strings.Contains(f.File, "internal/sched/") || !more {
			file := f.File[strings.LastIndexByte(f.File[:strings.LastIndexByte(f.File, '/')], '/')+1:]
			s.steps = append(s.steps, strings.TrimSpace(fmt.Sprintf("%-12s %s:%d %s", s.current.name, file, f.Line, what)))
			return
		}
	}
}

// schedule returns the run's schedule: "choice:option,…" for each choice whose option is not
// 0, and "none" if there is no such choice.
func (s *run) schedule() string {
	var out []string
	for i, c := range s.choices {
		if c.taken > 0 {
			out = append(out, fmt.Sprintf("%d:%d", i, c.taken))
		}
	}
	if len(out) == 0 {
		return "none"
	}
	return strings.Join(out, ",")
}

// parse is the inverse of schedule.
func parse(schedule string) (map[int]uint8, error) {
	if schedule == "" || schedule == "none" {
		return nil, nil
	}
	m := make(map[int]uint8)
	for part := range strings.SplitSeq(schedule, ",") {
		at, taken, ok := strings.Cut(part, ":")
		i, err := strconv.Atoi(at)
		n, err2 := strconv.ParseUint(taken, 10, 8)
		if !ok || err != nil || err2 != nil {
			return nil, fmt.Errorf("sched: %q is not a schedule", schedule)
		}
		m[i] = uint8(n)
	}
	return m, nil
}
