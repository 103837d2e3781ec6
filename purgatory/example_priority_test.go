package purgatory_test

import (
	"time"

	"github.com/delayedop/purgatory/purgatory"
)

// Positions as priorities: the request with the lowest position gets the next item, and of those with the same
// position the one that has waited longest.
func ExampleDelayedOperationPurgatory_TryCompleteElseWatchAt_priority() {
	p, err := purgatory.New[string]("claims", purgatory.WithFirstInFirstOut())
	if err != nil {
		panic(err)
	}
	defer p.Close()

	const urgent, normal, bulk = 0, 1, 2
	var jobs []string
	wait := func(worker string, priority int64) {
		at := purgatory.KeyPosition[string]{Key: "jobs", Position: priority}
		_, _ = p.TryCompleteElseWatchAt(&claim{worker: worker, jobs: &jobs}, time.Minute, at)
	}
	wait("Ada", bulk)
	wait("Bob", normal)
	wait("Cy", urgent)
	wait("Dot", normal)

	jobs = append(jobs, "wash", "dry", "fold")
	p.CheckAndCompleteInOrder("jobs")
	// Output:
	// Cy: wash, satisfied
	// Bob: dry, satisfied
	// Dot: fold, satisfied
	// Ada: , closed
}

// Positions that fall: the request that came last gets the next item. Under overload it is the one whose client
// has most likely not given up yet.
func ExampleDelayedOperationPurgatory_TryCompleteElseWatchAt_lastInFirstOut() {
	p, err := purgatory.New[string]("claims")
	if err != nil {
		panic(err)
	}
	defer p.Close()

	var jobs []string
	var came int64 // production code uses an atomic.Int64
	wait := func(worker string) {
		came++
		at := purgatory.KeyPosition[string]{Key: "jobs", Position: -came}
		_, _ = p.TryCompleteElseWatchAt(&claim{worker: worker, jobs: &jobs}, time.Minute, at)
	}
	wait("Ada")
	wait("Bob")
	wait("Cy")

	jobs = append(jobs, "wash", "dry")
	p.CheckAndCompleteInOrder("jobs")
	// Output:
	// Cy: wash, satisfied
	// Bob: dry, satisfied
	// Ada: , closed
}
