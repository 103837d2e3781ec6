package queue_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/delayedop/purgatory/queue"
	"github.com/delayedop/purgatory/timer"
)

// A worker waits for a job.
func Example() {
	jobs, err := queue.New[string]()
	if err != nil {
		panic(err)
	}
	var worker sync.WaitGroup
	worker.Go(func() {
		job, err := jobs.Take(context.Background(), time.Minute)
		fmt.Println("the worker has", job, err)
	})
	if err := jobs.Put("mail to bob"); err != nil {
		panic(err)
	}
	worker.Wait()
	fmt.Println("left:", jobs.Close(nil))
	// Output:
	// the worker has mail to bob <nil>
	// left: []
}

// Eight slots for requests, in equal shares for the users that compete for them. Premium users get twice as much.
func ExamplePlace() {
	slots, err := queue.New[struct{}](queue.WithMaxWaiting(1000), queue.WithMaxItems(8))
	if err != nil {
		panic(err)
	}
	if err := slots.Put(struct{}{}, queue.Place{N: 8}); err != nil {
		panic(err)
	}
	serve := func(ctx context.Context, user string, weight float64) error {
		if _, err := slots.Take(ctx, time.Second, queue.Place{Tenant: user, Cost: 1 / weight}); err != nil {
			return err // queue.ErrFull: 429; queue.ErrExpired: 503
		}
		defer func() { _ = slots.Put(struct{}{}) }()
		return nil
	}
	fmt.Println(serve(context.Background(), "a premium user", 2))
	_, err = slots.Take(context.Background(), time.Second, queue.Place{N: 9})
	fmt.Println(errors.Is(err, queue.ErrInvalid), err)
	// Output:
	// <nil>
	// true queue: invalid: 9 units, at most 8 are kept
}

// job names its type, which is its kind: who waits for several kinds gets an item of one of them.
type job struct{ kind, text string }

func (j job) place() queue.Place { return queue.Place{Kinds: []string{j.kind}} }

// lease is a job in a worker's hands: unless the worker says that it is done before the time is over, the job comes before
// all that wait. Extend is false when it is too late.
type lease struct {
	job    job
	handle *timer.Handle
}

func take(jobs *queue.Queue[job], types []string, d time.Duration) (*lease, error) {
	j, err := jobs.Take(context.Background(), time.Minute, queue.Place{Kinds: types})
	if err != nil {
		return nil, err
	}
	l := &lease{job: j}
	l.handle, err = timer.Shared().AfterFunc(d, func() {
		if err := jobs.PutBack(j, j.place()); err != nil {
			fmt.Println("to be kept elsewhere:", j, err) // the queue is closed
		}
	})
	if err != nil {
		return nil, errors.Join(err, jobs.PutBack(j, j.place()))
	}
	return l, nil
}

func (l *lease) Extend(d time.Duration) bool { return l.handle.Extend(d) }
func (l *lease) Done() bool                  { return l.handle.Stop() }

// A job whose worker has died is given to the next worker.
func ExampleQueue_PutBack() {
	jobs, err := queue.New[job]()
	if err != nil {
		panic(err)
	}
	mail := job{"mail", "to bob"}
	if err := jobs.Put(mail, mail.place()); err != nil {
		panic(err)
	}
	if _, err = take(jobs, []string{"fax", "mail"}, time.Millisecond); err != nil { // this worker dies
		panic(err)
	}
	l, err := take(jobs, []string{"mail"}, time.Minute)
	if err != nil {
		panic(err)
	}
	fmt.Println(l.job, l.Extend(time.Minute), l.Done(), l.Extend(time.Minute))
	// Output: {mail to bob} true true false
}
