package main

import (
	"context"

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

// judge switches a change on and runs the tests that come to it until one fails.
func judge(ctx context.Context, m mutant, number int, suites []*suite) verdict {
	result := verdict{mutant: m, status: unreached}
	for _, s := range suites {
		batches, err := s.batches(ctx, number)
		if err != nil {
			return verdict{err: err}
		}
		for _, some := range batches {
			result.status = survived
			if out, err := s.try(ctx, some, number); err != nil {
				result.status = noticed
				if tree.Hangs(out) {
					result.status = hung
				}
				result.detail, _ = tree.FailedBy(out)
				return result
			}
		}
	}
	return result
}
