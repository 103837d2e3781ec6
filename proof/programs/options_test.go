package programs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// notDrawn says why no program has an option.
var notDrawn = map[string]string{
	"WithDiagnostics":      "it stands for others",
	"WithDrainTime":        "it matters only where a callback never returns, and such a run is a deadlock",
	"WithHook":             "it is package purgatorytest's",
	"WithStuckStacks":      "it reads stacks when the system's clock says so",
	"WithTick":             "it has no concurrency",
	"WithTimeoutsExpected": "it changes what is said, and nothing that is done",
}

// A new option that no program draws is one that no schedule meets.
func TestEveryOptionIsDrawn(t *testing.T) {
	drawn := sources(t, ".")
	for _, m := range regexp.MustCompile(`(?m)^func (With\w+)\(.*\) Option \{`).FindAllStringSubmatch(sources(t, "../../purgatory"), -1) {
		option := m[1]
		if _, not := notDrawn[option]; not == strings.Contains(drawn, "purgatory."+option+"(") {
			t.Errorf("%s: it has to be drawn (options in clock.go), or to have a line in notDrawn", option)
		}
		delete(notDrawn, option)
	}
	for option := range notDrawn {
		t.Errorf("%s: there is no such option", option)
	}
}

// notCalled says why no program calls a method.
var notCalled = map[string]string{
	"purgatory.DelayedOperationPurgatory.Closed": "it reads one word, which Close writes",
	"purgatory.DelayedOperationPurgatory.Name":   "it does not change",
	"purgatory.DelayedOperationPurgatory.Waited": "it reads the clock and the start of an operation, which does not change",
	"purgatory.KeyReport.OnlyTimeouts":           "it computes from a copy",
	"timer.ManualTimer.AdvanceClockUntil":        "AdvanceClock is it, without an end",
	"timer.SystemTimer.AdvanceClockUntil":        "the reaper of a purgatory calls it",
}

// A new method that no program calls is one that no schedule meets. Names are compared: a method counts as called if one of
// that name is.
func TestEveryMethodIsCalled(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var called strings.Builder
	for _, file := range files {
		if file == "options_test.go" { // notCalled is no call
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		called.Write(text)
	}
	for _, folder := range []string{"purgatory", "watermark", "future", "timer"} {
		for _, m := range regexp.MustCompile(`(?m)^func \(\w+ \*?([A-Z]\w*)(?:\[\w+\])?\) ([A-Z]\w*)\(`).FindAllStringSubmatch(sources(t, "../../"+folder), -1) {
			method := folder + "." + m[1] + "." + m[2]
			if _, not := notCalled[method]; not == regexp.MustCompile(`\.`+m[2]+`(\(|\n)`).MatchString(called.String()) {
				t.Errorf("%s: a program has to call it (verbs.go, or a family), or it has to have a line in notCalled", method)
			}
			delete(notCalled, method)
		}
	}
	for method := range notCalled {
		t.Errorf("%s: there is no such method", method)
	}
}

// sources returns the Go files of a folder, tests left out.
func sources(t *testing.T, folder string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatal(folder, err)
	}
	var all strings.Builder
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}
