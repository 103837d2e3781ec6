// Jobs hands out jobs over HTTP: each to one of the workers that wait for its type. See http.go.
package main

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/queue"
)

type job struct {
	ID    int64  `json:"id"`
	Claim int64  `json:"claim"` // another one each time that the job is handed out
	Type  string `json:"type"`
	Body  string `json:"body"`
}

// service is safe for concurrent use.
type service struct {
	jobs   *queue.Queue[job] // those that are left; their kinds are their types
	leases *purgatory.Purgatory[int64]
	lease  time.Duration
	ids    atomic.Int64 // of jobs and claims

	mu struct {
		sync.Mutex
		held map[int64]*lease // jobs in workers' hands, by claim
		done int64
		left int64 // jobs that were given back after close
	}
}

func newService(duration time.Duration) (*service, error) {
	jobs, err := queue.New[job](queue.WithMaxWaiting(maxWaiting), queue.WithMaxItems(maxJobs))
	if err != nil {
		return nil, err
	}
	leases, err := purgatory.New[int64]("leases", purgatory.WithTimeoutsExpected())
	s := &service{jobs: jobs, leases: leases, lease: duration}
	s.mu.held = make(map[int64]*lease)
	return s, err
}

// put adds a job: the first who waits for its type gets it. Errors: [queue.ErrFull], [queue.ErrClosed].
func (s *service) put(kind, body string) (id int64, err error) {
	id = s.ids.Add(1)
	return id, s.jobs.Put(job{ID: id, Type: kind, Body: body}, queue.Place{Kinds: []string{kind}})
}

// claim waits for a job of one of types. If err is nil, the job is the caller's until its lease ends, even if ctx has ended.
func (s *service) claim(ctx context.Context, wait time.Duration, types []string) (j job, err error) {
	if j, err = s.jobs.Take(ctx, wait, queue.Place{Kinds: types}); err != nil {
		return j, err
	}
	j.Claim = s.ids.Add(1)
	now := time.Now()
	l := &lease{service: s, job: j, ends: now.Add(s.lease), most: now.Add(leasesAtMost * s.lease)}
	s.mu.Lock()
	s.mu.held[j.Claim] = l
	s.mu.Unlock()
	if _, err = s.leases.TryCompleteElseWatch(l, s.lease, j.Claim); err != nil {
		s.end(j.Claim, false) // the service has closed
	}
	return j, err
}

// lease is a job in a worker's hands. Its end gives the job back, unless it is done.
type lease struct {
	operation.DelayedOperation
	service    *service
	job        job
	ends, most time.Time // ends, which service.mu guards, is never after most
}

func (l *lease) TryComplete() bool { return false }
func (l *lease) OnExpiration()     {}
func (l *lease) OnComplete()       { l.service.end(l.job.Claim, false) }

// end takes a job out of its worker's hands, once, and reports whether it has. The job is done, or goes to the front of the line.
func (s *service) end(claim int64, done bool) (held bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, held := s.mu.held[claim]
	switch delete(s.mu.held, claim); {
	case !held:
	case done:
		s.mu.done++
	case s.jobs.PutBack(l.job, queue.Place{Kinds: []string{l.job.Type}}) != nil: // the service has closed
		s.mu.left++
	}
	return held
}

// drop gives back a job whose worker has left.
func (s *service) drop(claim int64) { s.leases.CancelForKey(claim, nil) }

// finish reports whether the caller has finished its job. If not, the job was given back before.
func (s *service) finish(claim int64) (done bool) {
	done = s.end(claim, true)
	s.leases.CancelForKey(claim, nil)
	return done
}

// extend has a lease begin anew, up to its most, and reports whether it has. If not, the lease has ended.
func (s *service) extend(claim int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, now := s.mu.held[claim], time.Now()
	if l == nil || !now.Before(l.ends) { // perhaps nobody has come yet to give the job back
		return false
	}
	lease := min(s.lease, l.most.Sub(now))
	extended := s.leases.Extend(l, lease) // it runs no callback
	if extended {
		l.ends = now.Add(lease)
	}
	return extended
}

// counts say what has become of the jobs: put + givenBack = handedOut + left.
type counts struct{ put, handedOut, givenBack, done, left int64 }

func (s *service) counts() counts {
	n := s.jobs.Stats()
	s.mu.Lock()
	defer s.mu.Unlock()
	return counts{put: n.Put, handedOut: n.Handed, givenBack: n.Back + s.mu.left, done: s.mu.done, left: int64(n.Items) + s.mu.left}
}

// close ends the claims that wait, and gives back the jobs in workers' hands. The jobs that are left are lost with the process.
func (s *service) close() error {
	now, end := context.WithCancelCause(context.Background())
	end(queue.ErrClosed)
	_ = s.jobs.Shutdown(now) // the error says that claims have ended with end's
	return s.leases.Close()
}
