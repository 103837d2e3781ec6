package purgatory_test

import (
	"fmt"
	"time"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// claim waits for a job, and takes it in TryComplete. Production code guards jobs with a mutex.
type claim struct {
	operation.DelayedOperation // the state of the wait
	worker                     string
	jobs                       *[]string
	job                        string // the one that it has taken
}

func (c *claim) TryComplete() bool {
	if len(*c.jobs) == 0 {
		return false
	}
	c.job, *c.jobs = (*c.jobs)[0], (*c.jobs)[1:]
	return true
}

func (c *claim) OnComplete()   { fmt.Printf("%s: %s, %v\n", c.worker, c.job, c.Outcome()) }
func (c *claim) OnExpiration() {}

// Workers wait for jobs, and each job goes to the one that has waited longest.
func ExampleDelayedOperationPurgatory_CheckAndCompleteInOrder() {
	p, err := purgatory.New[string]("claims", purgatory.WithFirstInFirstOut())
	if err != nil {
		panic(err)
	}
	defer p.Close()

	var jobs []string
	claims := make(map[string]*claim)
	for _, worker := range []string{"Ada", "Bob", "Cy", "Dot"} {
		claims[worker] = &claim{worker: worker, jobs: &jobs}
		_, _ = p.TryCompleteElseWatch(claims[worker], time.Minute, "jobs")
	}
	p.Cancel(claims["Bob"], nil) // Bob leaves the line

	jobs = append(jobs, "wash", "dry")                      // first add the items,
	fmt.Println("went:", p.CheckAndCompleteInOrder("jobs")) // then check: Dot is tried in vain
	jobs = append(jobs, "fold", "iron")                     // more than there are workers
	fmt.Println("went:", p.CheckAndCompleteInOrder("jobs")) // iron is left
	_, _ = p.TryCompleteElseWatch(&claim{worker: "Eve", jobs: &jobs}, time.Minute, "jobs")
	// Output:
	// Bob: , cancelled
	// Ada: wash, satisfied
	// Cy: dry, satisfied
	// went: 2
	// Dot: fold, satisfied
	// went: 1
	// Eve: iron, satisfied
}
