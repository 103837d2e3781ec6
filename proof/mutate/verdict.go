package main

import (
	"context"
	"slices"
	"strings"

	"github.com/delayedop/purgatory/proof/internal/tree"
)

// status is the result for a change.
type status string

const (
	noticed   status = "noticed"
	hung      status = "HUNG" // noticed, by a test that does not say what is wrong
	survived  status = "SURVIVED"
	unreached status = "UNREACHED" // survived, because no test comes to it
)

type verdict struct {
	mutant
	status status
	detail string
	err    error
}

// judge switches a change on and runs the tests that come to it until one fails, those of its package first. If one hangs, judge goes on
// without it, once: another one may say what is wrong.
func judge(ctx context.Context, m mutant, number int, suites []*suite) verdict {
	result := verdict{mutant: m, status: unreached}
	for _, s := range inOrder(m.pkg(), suites) {
		batches, err := s.batches(ctx, number)
		if err != nil {
			return verdict{err: err}
		}
		for len(batches) > 0 {
			some := batches[0]
			batches = batches[1:]
			if result.status == unreached {
				result.status = survived
			}
			out, err := s.try(ctx, some, number)
			if err == nil {
				continue
			}
			again := result.status == hung
			result.status = noticed
			result.detail, _ = tree.FailedBy(out)
			if !tree.Hangs(out) {
				return result
			}
			if result.status = hung; again {
				return result
			}
			name, _, _ := strings.Cut(strings.TrimPrefix(result.detail, "by "), "/")
			s.putLast(name)
			if some = slices.DeleteFunc(some, func(t test) bool { return t.name == name }); len(some) > 0 {
				batches = slices.Insert(batches, 0, some)
			}
		}
	}
	return result
}

// inOrder returns the suites for a change to pkg: its own first, and those of all.
func inOrder(pkg string, suites []*suite) (some []*suite) {
	for _, s := range suites {
		if s.pkg == pkg {
			some = slices.Insert(some, 0, s)
		} else if s.ofAll {
			some = append(some, s)
		}
	}
	return some
}
