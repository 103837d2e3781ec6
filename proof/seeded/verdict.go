package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"
)

// status is what became of a defect.
type status string

const (
	caught   status = "caught"
	survived status = "SURVIVED"
	broken   status = "BROKEN" // it cannot be put in any more
)

type verdict struct {
	status  status
	detail  string
	name    string // of the defect
	seconds int
}

// copyOf is a copy of the module, for one defect at a time.
type copyOf struct{ dir string }

// patience is how long the named tests may take; a defect may make them wait for
// ever. All tests may take several times as long.
const patience = 15 * time.Second

// green runs every named test without a defect: a test that is red anyhow catches
// nothing.
func (c copyOf) green(ctx context.Context, all []defect) error {
	type group struct{ pkg, flags string }
	patterns := map[group][]string{}
	var order []group
	for _, d := range all {
		for _, t := range d.tests {
			g := group{t.pkg, strings.Join(d.flags, " ")}
			if patterns[g] == nil {
				order = append(order, g)
			}
			patterns[g] = append(patterns[g], t.pattern)
		}
	}
	for _, g := range order {
		pattern := strings.Join(patterns[g], "|")
		out, err := c.goTest(ctx, 10*patience, strings.Fields(g.flags), pattern, g.pkg)
		if err != nil {
			return fmt.Errorf("without any defect, tests of %s fail: %w\n%s", g.pkg, err, out)
		}
		if strings.Contains(out, "no tests to run") {
			return fmt.Errorf("%s has none of the tests that are named: %s", g.pkg, pattern)
		}
	}
	return nil
}

// verdict puts d in, runs the tests that it names, and if these stay green and
// thorough is set all others.
func (c copyOf) verdict(ctx context.Context, d defect, thorough bool) verdict {
	undo, err := d.apply(c.dir)
	defer undo()
	if err != nil {
		return verdict{status: broken, detail: err.Error()}
	}
	if out, err := c.command(ctx, "build", "./..."); err != nil {
		return verdict{status: broken, detail: "does not compile: " + firstLine(out)}
	}
	for _, t := range d.tests {
		if out, err := c.goTest(ctx, patience, d.flags, t.pattern, t.pkg); err != nil {
			return found(out)
		}
	}
	if !thorough {
		return verdict{status: survived, detail: "the tests that it names are green"}
	}
	if out, err := c.goTest(ctx, 20*patience, nil, "", "./..."); err != nil {
		v := found(out)
		v.detail += ", which it does not name"
		return v
	}
	return verdict{status: survived, detail: strings.TrimSpace(firstLine(d.lesson))}
}

func (c copyOf) goTest(ctx context.Context, timeout time.Duration, flags []string, pattern string, packages ...string) (string, error) {
	args := append([]string{"test"}, packages...) // before flags that are the test's own
	args = append(args, "-vet=off", "-count=1", "-failfast", "-timeout", timeout.String())
	if pattern != "" {
		args = append(args, "-run", pattern)
	}
	return c.command(ctx, append(args, flags...)...)
}

func (c copyOf) command(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), "PWD="+c.dir, "GOWORK=off")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		panic(err) // there is no Go
	}
	return out.String(), err
}

var (
	failed  = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)
	running = regexp.MustCompile(`running tests:\s+(\S+)`)
	crashed = regexp.MustCompile(`(?m)^(panic|fatal error): (.*)$`)
	leaked  = regexp.MustCompile(`found unexpected goroutines`)
	inTest  = regexp.MustCompile(`\.(Test\w+)\(`)
)

// found says which test a failing run of go test names.
func found(out string) verdict {
	if m := running.FindStringSubmatch(out); m != nil {
		return verdict{status: caught, detail: "by " + m[1] + ", which never ends"}
	}
	if m := failed.FindStringSubmatch(out); m != nil {
		return verdict{status: caught, detail: "by " + m[1]}
	}
	if m := crashed.FindStringSubmatch(out); m != nil {
		detail := "by a crash: " + m[2]
		if t := inTest.FindStringSubmatch(out); t != nil {
			detail += ", in " + t[1]
		}
		return verdict{status: caught, detail: detail}
	}
	if leaked.MatchString(out) {
		return verdict{status: caught, detail: "by goroutines that are left behind"}
	}
	return verdict{status: broken, detail: firstLine(out)}
}

func firstLine(s string) string {
	for line := range strings.Lines(s) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			return line
		}
	}
	return ""
}
