//go:build interleave

package workers

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/proof/explore"
)

// ending is a pool of one run.
type ending struct {
	p   *Pool
	job *counted
}

// verbs are what is done to a pool beside its workers.
var verbs = map[string]func(e *ending){
	"work":           func(e *ending) { e.job.left.Add(1); e.p.Kick() },
	"work if queued": func(e *ending) { e.job.left.Add(1); e.p.KickIfQueued() },
	"widen":          func(e *ending) { e.p.Widen() },
	"dismiss":        func(e *ending) { e.p.Dismiss() },
	"time":           func(*ending) { sched.Advance(lingering) }, // a worker lingers no longer
}

// idle is how an owner asks: the queue first. The other way round, the last worker may go, and start the next one for what is queued, between
// the two questions.
func (e *ending) idle() bool { return !e.job.Queued() && e.p.Idle() }

// peek reads a number of the explored types in this very moment: a Load would let others go on before.
func peek(of any) int64 {
	v := reflect.ValueOf(of).Elem().Field(0)
	if v.CanUint() {
		return int64(v.Uint())
	}
	return v.Int()
}

// Two verbs run beside the last step of a worker, and beside somebody who waits until the pool is idle, as Shutdown does. When the verbs have
// returned and the pool is idle, nothing is queued and nobody works; after Dismiss, nobody waits to linger on either. (A goroutine that found
// no work may still have its last steps to go.)
func TestAnIdlePoolHasNoWorkAndNoWorkerEveryInterleaving(t *testing.T) {
	t.Cleanup(explore.Close)
	names := slices.Sorted(maps.Keys(verbs))
	for limit := 1; limit <= 2; limit++ {
		schedules := 0
		for i, a := range names {
			for _, b := range names[i:] {
				setup := func(spawn func(string, func())) func() error {
					e := &ending{job: &counted{}}
					e.p = newPool(limit, e.job)
					e.p.MayLinger()
					verbs["work"](e)
					var found error
					sees := func(when string, wrong bool) {
						if left := peek(&e.job.left); e.job.working > 0 || left > 0 || wrong {
							found = errors.Join(found, fmt.Errorf("%s: %d work, %d are queued, %d run, who lingers is %d",
								when, e.job.working, left, peek(&e.p.running), peek(&e.p.lingers)))
						}
					}
					over := make(chan struct{})
					returned := 0
					for _, name := range []string{a, b} {
						spawn(name, func() {
							verbs[name](e)
							if returned++; returned == 2 {
								close(over)
							}
						})
					}
					spawn("shutdown", func() {
						never := make(chan struct{})
						sched.Receive(over)
						for !e.idle() {
							sched.Pause(0, never)
						}
						sees("idle", peek(&e.p.lingers) == int64(woken))
						e.p.Dismiss()
						for !e.idle() {
							sched.Pause(0, never)
						}
						sees("idle after Dismiss", peek(&e.p.lingers) == int64(woken))
						explore.Settle()
						sees("when nobody goes on", peek(&e.p.running) != 0 || peek(&e.p.lingers) != int64(nobody))
						sched.Advance(lingering) // a timer that is set has nobody to end
					})
					return func() error {
						sees("at last", peek(&e.p.running) != 0 || peek(&e.p.lingers) != int64(nobody))
						return found
					}
				}
				r := explore.Exploration{Setup: setup, Preemptions: 1}.Explore()
				if r.Failure != nil {
					t.Fatalf("%s, %s, %d workers: %v, after %d schedules; replay %s", a, b, limit, r.Failure, r.Schedules, r.Schedule)
				}
				schedules += r.Schedules
			}
		}
		t.Logf("%d workers: %d schedules", limit, schedules)
	}
}

// Somebody queues work for a worker that has just found none, and asks then whether all is done.
func TestWhoAsksForWorkFirstSeesTheLastWorkerEveryInterleaving(t *testing.T) {
	setup := func(spawn func(string, func())) func() error {
		e := &ending{job: &counted{}}
		e.p = newPool(1, e.job)
		e.p.running.Store(starting + 1)
		spawn("worker", e.p.loop)
		var found error
		spawn("shutdown", func() {
			verbs["work"](e)
			never := make(chan struct{})
			for !e.idle() {
				sched.Pause(0, never)
			}
			if e.job.working > 0 || e.job.did != 1 {
				found = fmt.Errorf("idle: %d work, %d done", e.job.working, e.job.did)
			}
		})
		return func() error { return found }
	}
	explore.Exploration{Setup: setup, Preemptions: 5}.Check(t)
}

// The time for which a worker may linger passes while another one comes to linger: that one does not stay either.
func TestNobodyLingersForLongEveryInterleaving(t *testing.T) {
	setup := func(spawn func(string, func())) func() error {
		e := &ending{job: &counted{}}
		e.p = newPool(1, e.job)
		e.p.MayLinger()
		verbs["work"](e)
		var found error
		over, n := make(chan struct{}), 0
		for _, name := range []string{"time", "work"} {
			spawn(name, func() {
				verbs[name](e)
				if n++; n == 2 {
					close(over)
				}
			})
		}
		spawn("last", func() {
			sched.Receive(over)
			explore.Settle()
			sched.Advance(lingering)
			explore.Settle()
			if running, lingers := peek(&e.p.running), peek(&e.p.lingers); running != 0 || lingers != int64(nobody) || e.job.did != 2 {
				found = fmt.Errorf("%d run, who lingers is %d, %d are done", running, lingers, e.job.did)
			}
			e.p.Dismiss()
		})
		return func() error { return found }
	}
	explore.Exploration{Setup: setup, Preemptions: 1}.Check(t)
}
