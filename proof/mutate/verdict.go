package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"time"

	"github.com/delayedop/purgatory/proof/internal/tree"
)

// status is the result for a change.
type status string

const (
	noticed  status = "noticed"
	survived status = "SURVIVED"
)

type verdict struct {
	mutant
	status status
	detail string
}

// suite is the tests of one package, compiled.
type suite struct {
	binary, dir string
	timeout     time.Duration // needed because a change may make a test wait for ever
}

// run runs the tests with a mutant switched on, or none if mutant is 0.
func (s suite) run(ctx context.Context, mutant int) (string, error) {
	cmd := exec.CommandContext(ctx, s.binary, "-test.failfast", "-test.timeout="+s.timeout.String())
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "MUTANT="+strconv.Itoa(mutant))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if m := hung.FindStringSubmatch(out.String()); err != nil && m != nil {
		if d, _ := time.ParseDuration(m[1]); d < s.timeout/2 { // the test that hung had begun late: the suite as a whole may be slow
			s.timeout *= 4
			return s.run(ctx, mutant)
		}
	}
	return out.String(), err
}

// hung finds how long the test that was running at the timeout had been running.
var hung = regexp.MustCompile(`running tests:\s+\S+ \((\S+)\)`)

// green runs the suites without a change. It returns an error if one fails, because a test
// that fails in any case notices nothing. From the time that a suite takes, green computes
// its timeout for runs with a change.
func green(ctx context.Context, suites []suite) error {
	for i := range suites {
		s := &suites[i]
		s.timeout = 5 * time.Minute
		start := time.Now()
		if out, err := s.run(ctx, 0); err != nil {
			return fmt.Errorf("without a change, tests in %s fail: %w\n%s", s.dir, err, out)
		}
		s.timeout = 10*time.Second + 5*time.Since(start)
	}
	return nil
}

// judge switches a change on and runs the suites until one fails.
func judge(ctx context.Context, m mutant, number int, suites []suite) verdict {
	for _, s := range suites {
		if out, err := s.run(ctx, number); err != nil {
			by, _ := tree.FailedBy(out)
			return verdict{m, noticed, by}
		}
	}
	return verdict{m, survived, ""}
}
