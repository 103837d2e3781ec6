//go:build interleave

package machine

import (
	"errors"
	"fmt"
	"testing"

	"github.com/delayedop/purgatory/proof/explore"
)

// Cancellations come while the holder of an operation tries it and ends it: a cancelled
// operation has the cause of a cancellation, and no cause is left.
func TestTheCauseBelongsToTheWishEveryInterleaving(t *testing.T) {
	for _, try := range []Outcome{Pending, Satisfied} {
		t.Run(fmt.Sprint("the try returns ", try), func(t *testing.T) {
			exploreAll(t, func(spawn func(string, func())) func() error {
				var w Wishes
				m := begun(t)
				held := [2]bool{}
				causes := [2]error{errGone, errLate}
				for i := range causes {
					spawn(fmt.Sprint("canceller ", i), func() {
						if held[i] = w.Claim(m, Cancelled, purgatory1, &causes[i]); held[i] {
							w.Settle([]*Machine{m}, []Outcome{Cancelled}, &causes[i])
						}
					})
				}
				spawn("holder", func() {
					end := try
					if end == Pending {
						end, _ = m.Release(true)
					}
					if end != Pending {
						w.Settle([]*Machine{m}, []Outcome{end}, nil)
					}
				})
				return func() error {
					cause := m.Cause()
					switch {
					case w.Len() != 0:
						return errors.New("a cause is left")
					case try == Satisfied && (m.Outcome() != Satisfied || cause != nil):
						return fmt.Errorf("it ended with %d: %v", m.Outcome(), cause)
					case try == Pending && (m.Outcome() != Cancelled || cause == nil):
						return fmt.Errorf("it ended with %d and the cause %v", m.Outcome(), cause)
					case held[0] && cause != errGone || held[1] && cause != errLate:
						return fmt.Errorf("the cause is that of another canceller: %v", cause)
					}
					return nil
				}
			})
		})
	}
}

// A rejected operation is submitted again and cancelled at once.
func TestRejectEveryInterleaving(t *testing.T) {
	exploreAll(t, func(spawn func(string, func())) func() error {
		var w Wishes
		m := begun(t)
		op := m.Operation()
		before, after := errGone, errLate
		spawn("rejects", func() { w.GiveBack(m, false) })
		spawn("cancels", func() { w.Claim(m, Cancelled, purgatory1, &before) })
		began, wish := false, Pending
		spawn("submits again", func() {
			if began = m.Begin(op, 1, purgatory1); began {
				w.Claim(m, Cancelled, purgatory1, &after)
				wish, _ = m.Release(true)
				w.Settle([]*Machine{m}, []Outcome{wish}, nil)
			}
		})
		return func() error {
			switch cause := m.Cause(); {
			case began && (wish != Cancelled || cause == nil):
				return fmt.Errorf("it ended with %d and the cause %v", wish, cause)
			case w.Len() != 0:
				return errors.New("a cause is left")
			}
			return nil
		}
	})
}

func exploreAll(t *testing.T, setup func(spawn func(string, func())) func() error) {
	t.Helper()
	t.Cleanup(explore.Close)
	r := explore.Exploration{Setup: setup, Preemptions: 4}.Explore()
	if r.Failure != nil {
		t.Fatalf("%v, after %d schedules; replay %s", r.Failure, r.Schedules, r.Schedule)
	}
	t.Logf("%d schedules", r.Schedules)
}
