package programs

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// notDrawn says why no program has an option.
var notDrawn = map[string]string{
	"purgatory.WithHook":             "it is package purgatorytest's",
	"purgatory.WithTick":             "it has no concurrency",
	"purgatory.WithTimeoutsExpected": "it changes what is said, and nothing that is done",
	"signals.WithLogger":             "what it says, and that no lock is held then, is tested in package signals",
	"signals.WithName":               "it changes what is said, and nothing that is done",
	"signals.WithSpread":             "it puts off a re-check by a sleep, as WithBackoff puts off a run",
	"timer.WithLogger":               "it logs while no goroutine has the timer",
	"timer.WithTick":                 "it has no concurrency",
}

// A new option that no program draws is one that no schedule meets.
func TestEveryOptionIsDrawn(t *testing.T) {
	drawn := everything(t)
	for _, folder := range []string{"purgatory", "timer", "signals", "watermark", "future"} {
		for _, m := range regexp.MustCompile(`(?m)^func (With\w+)(?:\[.*\])?\(.*\) Option \{`).FindAllStringSubmatch(sources(t, "../../"+folder), -1) {
			option := folder + "." + m[1]
			if _, not := notDrawn[option]; not == strings.Contains(drawn, option+"(") {
				t.Errorf("%s: it has to be drawn (options in clock.go, or a family), or to have a line in notDrawn", option)
			}
			delete(notDrawn, option)
		}
	}
	for option := range notDrawn {
		t.Errorf("%s: there is no such option", option)
	}
}

// What stands in the code of the generator may be drawn never, or always: so each part of a program and of an operation differs
// between programs, each verb is in one, and so is each way to wait.
func TestWhatMayBeDrawnIsDrawn(t *testing.T) {
	const programs = 10_000
	values := map[string]map[any]bool{}
	note := func(of string, value any) {
		if values[of] == nil {
			values[of] = map[any]bool{}
		}
		values[of][value] = true
	}
	fields := func(of string, v reflect.Value) {
		for i := range v.NumField() {
			field := v.Field(i)
			if name := of + "." + v.Type().Field(i).Name; field.Kind() == reflect.Slice {
				note(name, field.Len())
			} else {
				note(name, fmt.Sprint(field))
			}
		}
	}
	for seed := range uint64(programs) {
		p := draw(seed)
		fields("program", reflect.ValueOf(*p))
		for _, steps := range p.goroutines {
			for _, s := range steps {
				note("verb "+verbNames[s.verb], "")
				if s.verb == vExtend && s.op < len(p.ops) && p.ops[s.op].endless && !p.ops[s.op].waits {
					note("first deadline", "")
				}
			}
		}
		for _, o := range p.ops {
			fields("operation", reflect.ValueOf(o))
			note(fmt.Sprint("wait ", o.waits, o.how, o.position > 0, o.strange, o.endless), "")
			for _, r := range slices.Concat(o.inTry, o.inDone, o.inExpire) {
				note("verb "+verbNames[r.step.verb], "")
			}
		}
	}
	for _, name := range verbNames {
		if values["verb "+name] == nil {
			t.Errorf("no program has the verb %s", name)
		}
	}
	for how := range waitVerbs {
		for _, position := range []bool{false, true} {
			if position && how != vAwait {
				continue // a wait for a position has one form
			}
			for _, strange := range []bool{false, true} {
				for _, endless := range []bool{false, true} {
					if way := fmt.Sprint("wait ", true, how, position, strange, endless); values[way] == nil {
						t.Errorf("nobody waits as in %q", way)
					}
				}
			}
		}
	}
	if values["first deadline"] == nil {
		t.Error("no Extend gives an operation its first deadline")
	}
	for of, all := range values {
		if !strings.Contains(of, " ") && len(all) < 2 {
			t.Errorf("%s is the same in %d programs", of, programs)
		}
	}
}

// notCalled says why no program calls a method.
var notCalled = map[string]string{
	"purgatory.Purgatory.Closed": "it reads one word, which Close writes",
	"purgatory.Purgatory.Name":   "it does not change",
	"purgatory.Purgatory.Waited": "it reads the clock and the start of an operation, which does not change",
}

// A new method that no program calls is one that no schedule meets. Names are compared: a method counts as called if one of
// that name is.
func TestEveryMethodIsCalled(t *testing.T) {
	called := everything(t)
	for _, folder := range []string{"purgatory", "watermark", "future", "timer"} {
		for _, m := range regexp.MustCompile(`(?m)^func \(\w+ \*?([A-Z]\w*)(?:\[\w+\])?\) ([A-Z]\w*)\(`).FindAllStringSubmatch(sources(t, "../../"+folder), -1) {
			method := folder + "." + m[1] + "." + m[2]
			if _, not := notCalled[method]; not == regexp.MustCompile(`\.`+m[2]+`(\(|\n)`).MatchString(called) {
				t.Errorf("%s: a program has to call it (verbs.go, or a family), or it has to have a line in notCalled", method)
			}
			delete(notCalled, method)
		}
	}
	for method := range notCalled {
		t.Errorf("%s: there is no such method", method)
	}
}

// everything returns the Go files of this folder, but for this one: its lists are no calls.
func everything(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, file := range files {
		if file == "options_test.go" {
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
