//go:build interleave

package workers

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/proof/explore"
)

// counted is a Job whose pieces of work yield once.
type counted struct {
	left               sched.Int64
	working, most, did int
}

func (c *counted) Queued() bool { return c.left.Load() > 0 }

func (c *counted) Work() bool {
	for n := c.left.Load(); n > 0; n = c.left.Load() {
		if c.left.CompareAndSwap(n, n-1) {
			c.working++
			c.most = max(c.most, c.working)
			sched.Yield()
			c.working--
			c.did++
			return true
		}
	}
	return false
}

// Two that kick at the last place of a pool start one worker, whether that place is the last worker's or the last of those that
// may be being started, and what both have queued is done.
func TestTwoKickAtTheLastPlaceEveryInterleaving(t *testing.T) {
	for _, c := range []struct{ limit, procs, kickers, preemptions int }{{1, 2, 2, 3}, {2, 2, 3, 1}, {3, 1, 2, 3}} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(c.procs))
			setup := func(spawn func(string, func())) func() error {
				job := &counted{}
				p := newPool(c.limit, job)
				starts, runs := int64(0), 0
				for i := range c.kickers {
					spawn(fmt.Sprint("kicker ", i), func() {
						job.left.Add(1)
						p.Kick()
						n := p.running.Load()
						starts, runs = max(starts, n/starting), max(runs, int(n%starting))
					})
				}
				return func() error {
					if job.most > c.limit || runs > c.limit || starts > int64(c.procs) || job.did != c.kickers || p.Running() != 0 {
						return fmt.Errorf("%d worked and %d ran, of %d; %d of %d were being started; %d of %d pieces are done, %d workers are left",
							job.most, runs, c.limit, starts, c.procs, job.did, c.kickers, p.Running())
					}
					return nil
				}
			}
			explore.Exploration{Setup: setup, Preemptions: c.preemptions}.Check(t)
		})
	}
}

// Two workers that find no more work come to the one place of who lingers: one gets it, and can be dismissed.
func TestTwoComeToLingerEveryInterleaving(t *testing.T) {
	setup := func(spawn func(string, func())) func() error {
		p := newPool(2, &counted{})
		p.MayLinger()
		at := 0
		for i := range 2 {
			spawn(fmt.Sprint("worker ", i), func() {
				at++
				p.linger()
				at--
			})
		}
		left := 0
		spawn("last", func() {
			explore.Settle()
			left = at
			p.Dismiss()
			explore.Settle()
			sched.Advance(lingering) // the timer that ends a wait has nothing to wake
		})
		return func() error {
			if left != 1 || at != 0 || p.lingers.Load() != nobody {
				return fmt.Errorf("%d lingered, %d still do", left, at)
			}
			return nil
		}
	}
	explore.Exploration{Setup: setup, Preemptions: 3}.Check(t)
}

// A pool is dismissed while a worker comes to linger, or is woken: nobody lingers from then on, not even for the time for which one may.
func TestNobodyLingersInADismissedPoolEveryInterleaving(t *testing.T) {
	for name, kicks := range map[string]bool{"alone": false, "beside a kick": true} {
		t.Run(name, func(t *testing.T) {
			setup := func(spawn func(string, func())) func() error {
				job := &counted{}
				p := newPool(1, job)
				p.MayLinger()
				job.left.Add(1)
				p.Kick()
				if kicks {
					spawn("kick", func() { job.left.Add(1); p.Kick() })
				}
				var idle bool
				var lingers uint32
				spawn("dismiss", func() {
					p.Dismiss()
					explore.Settle()
					idle, lingers = p.Idle(), p.lingers.Load()
					sched.Advance(lingering) // the timer that ends a wait has nothing to wake
				})
				return func() error {
					if !idle || lingers != nobody {
						return fmt.Errorf("idle: %v, and who lingers is %d", idle, lingers)
					}
					return nil
				}
			}
			explore.Exploration{Setup: setup, Preemptions: 2}.Check(t)
		})
	}
}
