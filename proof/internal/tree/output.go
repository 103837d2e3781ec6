package tree

import (
	"regexp"
	"strings"
)

var (
	failed  = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)
	running = regexp.MustCompile(`(?:running tests:\s+|(?m:^))((?:Test|Fuzz|Example|a cleanup in |a test)\S*)(?: \(| has not ended)`)
	crashed = regexp.MustCompile(`(?m)^(panic|fatal error): (.*)$`)
	leaked  = regexp.MustCompile(`found unexpected goroutines`)
	inTest  = regexp.MustCompile(`\.(Test\w+)\(`)
)

// FailedBy returns which test has failed, from the output of a run of [Tree.Test] that
// returned an error, as in "by TestX". If no test has failed, because the code does not
// compile, ok is false and by is the first line of the output.
func FailedBy(out string) (by string, ok bool) {
	if m := running.FindStringSubmatch(out); m != nil {
		return "by " + m[1], true
	}
	if m := failed.FindStringSubmatch(out); m != nil {
		return "by " + m[1], true
	}
	if m := crashed.FindStringSubmatch(out); m != nil {
		by = "by a crash: " + m[2]
		if t := inTest.FindStringSubmatch(out); t != nil {
			by += ", in " + t[1]
		}
		return by, true
	}
	if leaked.MatchString(out) {
		return "by goroutines that are left behind", true
	}
	return FirstLine(out), false
}

// Hangs reports whether a test has not ended before its time was over, or has ended and left something that has not.
func Hangs(out string) bool {
	return running.MatchString(out) || strings.Contains(out, "panic: test timed out")
}

// FirstLine returns the first line of s that is neither empty nor begins with #, as the
// headings of the go command do.
func FirstLine(s string) string {
	for line := range strings.Lines(s) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			return line
		}
	}
	return ""
}
