//go:build interleave

package timer

import (
	"errors"
	"testing"
	"time"

	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/proof/explore"
)

// An entry becomes due while the only worker ends: that one starts the next one for it. Idle is asked meanwhile, and does not say that no
// task runs while one does.
func TestATimerIsNotIdleWhileATaskRunsEveryInterleaving(t *testing.T) {
	setup := func(spawn func(string, func())) func() error {
		timer, err := NewSystemTimer(WithShards(1), WithWorkers(1))
		if err != nil {
			return func() error { return err }
		}
		timer.clock = spied{timer, func() time.Duration { return 2 * ms }, timer.need}
		running, ran := 0, 0
		for d := ms; d <= 2*ms; d += ms {
			tt := newTask(func() { running++; sched.Yield(); running--; ran++ })
			tt.inShard(0)
			if err := timer.AddAt(&tt.TaskEntry, 0, d); err != nil {
				return func() error { return err }
			}
		}
		timer.flush(ms)
		spawn("driver", func() { timer.flush(2 * ms) })
		spawn("asks", func() {
			if timer.Idle() && running > 0 {
				err = errors.New("it is idle, and a task runs")
			}
		})
		return func() error {
			defer timer.Stop()
			if ran != 2 || !timer.Idle() {
				err = errors.Join(err, errors.New("a task has not run, or the timer is not idle"))
			}
			return err
		}
	}
	explore.Exploration{Setup: setup, Preemptions: 3}.Check(t)
}
