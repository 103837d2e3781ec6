// Package watchdog ends a run of tests with a message that names the test that hangs, long before go test's own timeout.
package watchdog

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strings"
	"time"
)

// Tests is what runs tests, such as a [testing.M].
type Tests interface{ Run() int }

// Over returns m with a watchdog: a test or an example that takes half of the time that -test.timeout leaves for all of them
// ends the process with status 1, its name and the stacks of all goroutines. A test that only waits for subtests may take
// longer. There is no watchdog where there is no timeout.
//
// Every TestMain has it: tests need not register, and those that hang in a bubble of synctest are seen, too.
func Over(m Tests) Tests { return watched{m} }

type watched struct{ tests Tests }

// looks is how often a watchdog looks while its patience lasts.
const looks = 8

func (w watched) Run() int {
	flag.Parse()
	limit, _ := flag.Lookup("test.timeout").Value.(flag.Getter).Get().(time.Duration)
	if limit <= 0 {
		return w.tests.Run()
	}
	stop := watch(limit/2, func(report string) {
		fmt.Fprint(os.Stderr, report)
		os.Exit(1)
	})
	defer stop()
	return w.tests.Run()
}

// watch looks for tests that hang until it is stopped, and calls bark for the first. Between two looks it has no goroutine
// that a test which counts them could see.
func watch(patience time.Duration, bark func(report string)) (stop func()) {
	seen := seen{}
	var next *time.Timer
	armed := make(chan struct{})
	next = time.AfterFunc(patience/looks, func() {
		<-armed
		stacks := stacks()
		if name := seen.look(stacks, time.Now(), patience); name != "" {
			bark(fmt.Sprintf("%s has not ended after %v\n%s", name, patience, stacks))
			return
		}
		next.Reset(patience / looks)
	})
	close(armed)
	return func() { next.Stop() }
}

// InBubbles returns how many goroutines run in bubbles of synctest. It does not count one that has just ended, which
// [runtime.NumGoroutine] still may when synctest.Wait returns.
func InBubbles() int { return strings.Count(stacks(), "synctest bubble") }

// stacks returns the stacks of all goroutines, or as many as 16 MB hold.
func stacks() string {
	for size := 1 << 18; ; size *= 4 {
		text := make([]byte, size)
		if n := runtime.Stack(text, true); n < size || size >= 16<<20 {
			return string(text[:n])
		}
	}
}

// seen has when each goroutine that runs a test was first seen, by the number of the goroutine, which is never used again.
type seen map[string]time.Time

// look returns the name of a test in stacks that was first seen longer ago than patience, or "".
func (s seen) look(stacks string, now time.Time, patience time.Duration) (name string) {
	running := map[string]bool{}
	for stack := range strings.SplitSeq(stacks, "\n\n") {
		goroutine, runs := testOf(stack)
		if runs == "" {
			continue
		}
		running[goroutine] = true
		since, known := s[goroutine]
		if !known {
			s[goroutine] = now
		} else if now.Sub(since) >= patience && name == "" {
			name = runs
		}
	}
	for goroutine := range s {
		if !running[goroutine] {
			delete(s, goroutine)
		}
	}
	return name
}

var (
	header  = regexp.MustCompile(`^goroutine (\d+) `)
	named   = regexp.MustCompile(`\.((?:Test|Fuzz|Example)\w*)`)
	cleanup = regexp.MustCompile(`(?m)^(?:\S+/)?(\S+)\(.*\n\t.*\ntesting\.\(\*common\)\.Cleanup\.func1\(`)
)

// testOf returns the number of a goroutine and the name of the test that it runs: "" if it runs none, or one that waits for
// what other goroutines run, which are looked at themselves. For a function that a test has given to Cleanup, the name is
// that of the function.
func testOf(stack string) (goroutine, name string) {
	h := header.FindStringSubmatch(stack)
	if h == nil {
		return "", ""
	}
	cleans := strings.Contains(stack, "testing.(*common).runCleanup(")
	switch has := func(function string) bool { return strings.Contains(stack, "\n"+function+"(") }; {
	case !has("testing.tRunner") && !has("testing.fRunner") && !has("testing.runExample"):
		return "", ""
	case has("testing.(*T).Run"), has("testing.(*T).Parallel"), has("testing.(*F).Fuzz"), has("internal/synctest.Run"):
		return "", ""
	case has("testing.tRunner.func1") && !cleans: // it waits for parallel subtests
		return "", ""
	}
	if n := named.FindStringSubmatch(stack); n != nil {
		return h[1], n[1]
	}
	if c := cleanup.FindStringSubmatch(stack); c != nil {
		return h[1], "a cleanup in " + c[1]
	}
	return h[1], "a test"
}
