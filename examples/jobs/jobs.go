// Jobs hands out jobs over HTTP: each to one of the workers that wait for its type. See http.go.
package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

type job struct {
	ID   int64  `json:"id"`
	Type string `json:"type"`
	Body string `json:"body"`
}

// service is safe for concurrent use.
type service struct {
	workers *purgatory.Purgatory[string] // claims that wait, by type of job
	leases  *purgatory.Purgatory[int64]  // jobs in workers' hands, by id
	lease   time.Duration

	mu struct {
		sync.Mutex
		jobs map[string][]job // those that are left, by type; no entry is empty
		counts
	}
}

// counts say what has become of the jobs: put + givenBack = handedOut + left.
type counts struct{ put, handedOut, givenBack, done, left int64 }

func newService(lease time.Duration) (*service, error) {
	workers, err := purgatory.New[string]("workers", purgatory.WithTimeoutsExpected(), purgatory.WithFirstInFirstOut(), purgatory.WithMaxPending(maxWaiting))
	if err != nil {
		return nil, err
	}
	leases, err := purgatory.New[int64]("leases", purgatory.WithTimeoutsExpected())
	if err != nil {
		return nil, errors.Join(err, workers.Close())
	}
	s := &service{workers: workers, leases: leases, lease: lease}
	s.mu.jobs = make(map[string][]job)
	return s, nil
}

// put adds a job. offer has those who wait for its type tried in order: the first takes it.
func (s *service) put(kind, body string) (id int64) {
	s.change(func(c *counts) { c.put++; id = c.put })
	s.offer(job{ID: id, Type: kind, Body: body})
	return id
}

func (s *service) offer(j job) {
	s.change(func(c *counts) { c.left++; s.mu.jobs[j.Type] = append(s.mu.jobs[j.Type], j) })
	s.workers.CheckAndCompleteInOrder(j.Type) // first add the job, then check
}

// take is the condition of a claim: it takes a job, if there is one. Whoever was told true has the job.
func (s *service) take(types []string) (j job, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range types {
		if jobs := s.mu.jobs[t]; len(jobs) > 0 {
			if s.mu.jobs[t] = jobs[1:]; len(jobs) == 1 {
				delete(s.mu.jobs, t)
			}
			s.mu.left--
			s.mu.handedOut++
			return jobs[0], true
		}
	}
	return job{}, false
}

// claim waits for a job of one of types. If err is nil, the job is the caller's until its lease ends, even if ctx has ended.
func (s *service) claim(ctx context.Context, wait time.Duration, types []string) (j job, err error) {
	j, err = purgatory.AwaitValue(ctx, s.workers, wait, func() (job, bool) { return s.take(types) }, types...)
	if err == nil {
		if _, err = s.leases.TryCompleteElseWatch(&lease{service: s, job: j}, s.lease, j.ID); err != nil {
			s.giveBack(j) // the service has closed
		}
	}
	return j, err
}

// errDone is the cause of a lease whose job is done.
var errDone = errors.New("the job is done")

// lease is a job in a worker's hands. Any end but [errDone] gives the job back.
type lease struct {
	operation.DelayedOperation
	service *service
	job     job
}

func (l *lease) TryComplete() bool { return false }
func (l *lease) OnExpiration()     {}
func (l *lease) OnComplete() {
	if !errors.Is(l.Cause(), errDone) {
		l.service.giveBack(l.job)
	}
}

func (s *service) giveBack(j job) {
	s.change(func(c *counts) { c.givenBack++ })
	s.offer(j)
}

// drop gives back a job whose worker has left.
func (s *service) drop(id int64, cause error) { s.leases.CancelForKey(id, cause) }

// finish reports whether the caller has finished its job. If not, the lease has ended before: an operation ends once.
func (s *service) finish(id int64) (done bool) {
	if done = s.leases.CancelForKey(id, errDone) == 1; done {
		s.change(func(c *counts) { c.done++ })
	}
	return done
}

func (s *service) change(change func(c *counts)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.mu.counts)
}

func (s *service) counts() (c counts) {
	s.change(func(now *counts) { c = *now })
	return c
}

// close ends the claims that wait, and gives back the jobs in workers' hands.
func (s *service) close() error { return errors.Join(s.workers.Close(), s.leases.Close()) }
