package main

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/delayedop/purgatory/proof/internal/tree"
)

// status is the result for a defect.
type status string

const (
	caught   status = "caught"
	survived status = "SURVIVED"
	broken   status = "BROKEN" // the replacements do not apply, or the result does not compile
)

type verdict struct {
	status  status
	detail  string
	defect  defect
	seconds int  // time taken
	hang    bool // a test has waited for ever, instead of failing
}

// patience is the timeout of the named tests of a defect, which may make them wait for
// ever: package watchdog ends a test that takes half of it. The other runs have a multiple of it.
const patience = 40 * time.Second

// attempts is how often the named tests run before a defect counts as not caught: some meet
// a race only in most of their runs.
const attempts = 3

// green runs every named test without a defect. It returns an error if one fails, because
// a test that fails in any case catches nothing.
func green(ctx context.Context, copied tree.Tree, all []defect) error {
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
		out, err := copied.Test(ctx, 20*patience, strings.Fields(g.flags), pattern, g.pkg)
		if err != nil {
			return fmt.Errorf("without any defect, tests of %s fail: %w\n%s", g.pkg, err, out)
		}
		if strings.Contains(out, "no tests to run") {
			return fmt.Errorf("%s has none of the tests that are named: %s", g.pkg, pattern)
		}
	}
	return nil
}

// judge applies d and runs the tests that it names. If these pass and thorough is set, it
// runs all tests of d's module.
func judge(ctx context.Context, copied tree.Tree, d defect, thorough bool) verdict {
	undo, err := d.apply(copied.Dir)
	defer undo()
	if err != nil {
		return verdict{status: broken, detail: err.Error()}
	}
	for range attempts {
		for _, t := range d.tests {
			if out, err := copied.Test(ctx, patience, d.flags, t.pattern, t.pkg); err != nil {
				return verdictOf(out)
			}
		}
	}
	if !thorough {
		return verdict{status: survived, detail: "the tests that it names are green"}
	}
	all := "./..."
	if strings.HasPrefix(d.in(), "plugin/") {
		all = "./" + d.in() + "/..."
	}
	if out, err := copied.Test(ctx, 10*patience, nil, "", all); err != nil {
		v := verdictOf(out)
		v.detail += ", which it does not name"
		return v
	}
	return verdict{status: survived, detail: strings.TrimSpace(tree.FirstLine(d.lesson))}
}

// explored finds how many schedules a test of proof/explore has needed.
var explored = regexp.MustCompile(`(\d+) schedules`)

// verdictOf returns the verdict on a failing run: caught if out names a test, otherwise
// broken.
func verdictOf(out string) verdict {
	by, ok := tree.FailedBy(out)
	if !ok {
		return verdict{status: broken, detail: by}
	}
	v := verdict{status: caught, detail: by, hang: tree.Hangs(out)}
	if m := explored.FindStringSubmatch(out); m != nil {
		v.detail += ", in " + m[1] + " schedules"
	}
	return v
}
