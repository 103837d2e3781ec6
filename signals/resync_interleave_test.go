//go:build interleave

package signals

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/proof/explore"
)

// oneKey is a purgatory in which somebody waits for a key, and nothing happens.
type oneKey struct{}

func (oneKey) SignalUpTo(int, int64) bool { return true }
func (oneKey) Keys() iter.Seq[int]        { return slices.Values([]int{1}) }

// A bulk read outlives its limit, and returns at last. Who is told that a re-check is due then can read: otherwise the copy that
// conditions look at would be that of long ago until the next audit.
func TestWhoIsToldThatAHangIsOverCanReadEveryInterleaving(t *testing.T) {
	setup := func(spawn func(string, func())) func() error {
		reads, back := 0, make(chan struct{})
		r, err := To[int](oneKey{}, WithResyncLimit(time.Second), WithResync(func(context.Context, []int) error {
			if reads++; reads == 1 {
				sched.Receive(back)
			}
			return nil
		}))
		if err != nil {
			panic(err)
		}
		var hung, again error
		spawn("recheck", func() {
			_, hung = r.readKeys(context.Background(), []int{1})
			sched.Receive(r.asked)
			_, again = r.readKeys(context.Background(), []int{1})
		})
		spawn("time", func() {
			for _, d := range []time.Duration{time.Second, grace} {
				explore.Settle()
				sched.Advance(d)
			}
			explore.Settle()
			close(back)
		})
		return func() error {
			if !errors.Is(hung, errHangs) || again != nil || reads != 2 {
				return fmt.Errorf("%d reads: %v, then %v", reads, hung, again)
			}
			return nil
		}
	}
	t.Cleanup(explore.Close)
	r := explore.Exploration{Setup: setup, Preemptions: 3}.Explore()
	if r.Failure != nil {
		t.Fatalf("%v, after %d schedules; replay %s", r.Failure, r.Schedules, r.Schedule)
	}
	t.Logf("%d schedules", r.Schedules)
}
