package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/delayedop/purgatory/proof/internal/tree"
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

// patience is how long the named tests may take; a defect may make them wait for
// ever. All tests may take several times as long.
const patience = 15 * time.Second

// green runs every named test without a defect: a test that is red anyhow catches
// nothing.
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
		out, err := copied.Test(ctx, 10*patience, strings.Fields(g.flags), pattern, g.pkg)
		if err != nil {
			return fmt.Errorf("without any defect, tests of %s fail: %w\n%s", g.pkg, err, out)
		}
		if strings.Contains(out, "no tests to run") {
			return fmt.Errorf("%s has none of the tests that are named: %s", g.pkg, pattern)
		}
	}
	return nil
}

// judge puts d in, runs the tests that it names, and if these stay green and
// thorough is set all others.
func judge(ctx context.Context, copied tree.Tree, d defect, thorough bool) verdict {
	undo, err := d.apply(copied.Dir)
	defer undo()
	if err != nil {
		return verdict{status: broken, detail: err.Error()}
	}
	if out, err := copied.Go(ctx, "build", "./..."); err != nil {
		return verdict{status: broken, detail: "does not compile: " + tree.FirstLine(out)}
	}
	for _, t := range d.tests {
		if out, err := copied.Test(ctx, patience, d.flags, t.pattern, t.pkg); err != nil {
			return found(out)
		}
	}
	if !thorough {
		return verdict{status: survived, detail: "the tests that it names are green"}
	}
	if out, err := copied.Test(ctx, 20*patience, nil, "", "./..."); err != nil {
		v := found(out)
		v.detail += ", which it does not name"
		return v
	}
	return verdict{status: survived, detail: strings.TrimSpace(tree.FirstLine(d.lesson))}
}

// found says which test a failing run names.
func found(out string) verdict {
	by, ok := tree.Red(out)
	if !ok {
		return verdict{status: broken, detail: by}
	}
	return verdict{status: caught, detail: by}
}
