//go:build interleave

package interleave

import (
	"context"
	"errors"
	"testing"

	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/purgatory"
)

// TestAChannelIsUsedAgain explores two waits of a goroutine, the second of which uses the channel of
// the first, while a check, or a worker of the timer, ends the first. A second token of the first would end the
// second.
func TestAChannelIsUsedAgain(t *testing.T) {
	setup := func(spawn func(string, func())) func() error {
		e := newEnv(1, []bool{false}, false, 0)
		state := 0
		reaches := func(n int) func() bool {
			return func() bool { sched.Yield(); return state >= n }
		}
		spawn("waits", func() {
			if err := e.p.Await(context.Background(), timeout, reaches(1), e.keys[0]); err != nil && !errors.Is(err, purgatory.ErrExpired) {
				e.fail("the first wait: %v", err)
			}
			if err := e.p.Await(context.Background(), 100*timeout, reaches(2), e.keys[0]); err != nil {
				e.fail("the second wait: %v, at %v", err, e.clock.Now())
			}
		})
		spawn("raises", func() {
			for range 2 {
				sched.Yield()
				state++
				e.p.CheckAndComplete(e.keys[0])
			}
		})
		spawn("clock", func() { e.clock.AdvanceClock(timeout) })
		return e.atRest
	}
	exploreOne(t, "await+await", *tripleBound, setup)
}
