package signals

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/delayedop/purgatory/internal/sched"
)

// batch is the maximum number of keys of a bulk read.
const batch = 1000

// grace is how long after the end of its context the function of WithResync may take to
// return before it counts as hanging.
const grace = time.Second

// UnreadError is an error of the function of [WithResync]: it says which keys the function could
// not read, and why. The function has read the others.
type UnreadError[K comparable] map[K]error

// Error names one of the keys.
func (u UnreadError[K]) Error() string {
	for key, err := range u {
		return fmt.Sprintf("%d keys could not be read, one of them: %v: %v", len(u), key, err)
	}
	return "no key was left unread"
}

// errHangs: a call of the function of WithResync has not returned when its context ended.
var errHangs = errors.New("signals: the bulk read does not return although its context has ended")

// errExited is the error of a function of the user's that has ended its goroutine.
var errExited = errors.New("the function has called runtime.Goexit")

// panicked is the error of a function of the user's that has panicked.
type panicked struct {
	value string
	stack []byte
}

func (p *panicked) Error() string { return "panic: " + p.value + "\n" + string(p.stack) }

// readKeys reads keys in bulk, and returns those that were not read.
func (r *Runner[K]) readKeys(ctx context.Context, keys []K) (unread []K, err error) {
	if r.hanging.Load() {
		return keys, errHangs
	}
	if ctx.Err() != nil {
		return keys, ctx.Err()
	}
	r.reads.Add(1)
	r.reading.Store(int64(max(sched.Since(r.began), 1)))
	err = r.call(ctx, keys)
	if err == nil || ctx.Err() != nil {
		return nil, err
	}
	r.failed.Add(1)
	var some UnreadError[K]
	if !errors.As(err, &some) {
		return keys, err
	}
	for key := range some {
		unread = append(unread, key)
	}
	return unread, err
}

// apart calls f, which is user code, on a goroutine of its own, so that a panic or a runtime.Goexit in it ends
// this call and nothing else. Its error is final when done is closed.
func (r *Runner[K]) apart(f func() error) (done chan struct{}, result *error) {
	err := errExited
	done = make(chan struct{})
	r.calls.Go(func() {
		defer close(done)
		defer func() {
			if v := recover(); v != nil {
				err = &panicked{panicText(v), debug.Stack()}
			}
		}()
		err = f()
	})
	return done, &err
}

// call calls the function of WithResync. A call that hangs is left behind. Until it returns there is no other one,
// and then there is a re-check.
func (r *Runner[K]) call(ctx context.Context, keys []K) error {
	within, cancel := sched.WithTimeout(ctx, r.cfg.limit)
	own := slices.Clone(keys) // which the function may keep, and write to
	done, err := r.apart(func() error {
		defer r.reading.Store(0)
		defer cancel()
		return r.read(within, own)
	})
	if sched.Either(done, within.Done()) || sched.Sleep(grace, nil, done, nil) == sched.Stopped {
		return *err
	}
	r.hanging.Store(true)
	r.calls.Go(func() {
		sched.Receive(done)
		r.hanging.Store(false)
		r.asked.Put()
	})
	return errHangs
}

// panicText returns the text of an error or a string. Of another value it returns the type,
// because another goroutine may be writing to what the value refers to.
func panicText(v any) string {
	switch v := v.(type) {
	case error:
		return v.Error()
	case string:
		return v
	default:
		return fmt.Sprintf("a value of type %T", v)
	}
}
