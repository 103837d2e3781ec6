//go:build interleave

package signals

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/proof/explore"
)

// user is what the user's functions are doing in a run.
type user struct {
	source, read, probe, signal int // calls that have not returned
	calls, probes               int
}

func (u *user) in(n *int) (out func()) {
	*n++
	u.calls++
	sched.Yield()
	return func() { *n-- }
}

// signalled is oneKey that takes a while.
type signalled struct {
	oneKey
	u *user
}

func (s signalled) SignalUpTo(int, int64) bool {
	defer s.u.in(&s.u.signal)()
	return true
}

// peek reads the number in a variable of an explored type in this very moment: a Load would let others go on before.
func peek(of any) reflect.Value { return reflect.ValueOf(of).Elem().Field(0) }

// A source runs, and its context ends beside what the source has just asked for: a re-check with a bulk read, one that hangs, a probe, what is
// said again for WithLag. When Run returns none of that runs, nothing of it begins later, and the Runner says that no source runs.
func TestNothingOfARunIsLeftAtItsEndEveryInterleaving(t *testing.T) {
	t.Cleanup(explore.Close)
	ends := errors.New("the end")
	for name, c := range map[string]struct {
		does  func(Sink[int], *user)
		hangs bool // a bulk read outlives its context
	}{
		"gap":  {func(s Sink[int], _ *user) { s.Missed(ends) }, false},
		"hang": {func(s Sink[int], _ *user) { s.Missed(ends) }, true},
		"hint": {func(s Sink[int], _ *user) { s.Changed(1, 1) }, false},
		"probe": {func(s Sink[int], u *user) {
			s.Subscribed(Subscription{Every: time.Second, Limit: 2 * time.Second, Probe: func(_ context.Context, n uint64) error {
				u.probes++
				defer u.in(&u.probe)()
				s.Heard(n)
				return nil
			}})
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			reads, probes, hangs, again := 0, 0, 0, int64(0)
			setup := func(spawn func(string, func())) func() error {
				u, back := new(user), make(chan struct{})
				r, err := To[int](signalled{u: u}, WithLag(2*firstPause), WithAudit(0), WithSpread(0), WithResyncLimit(time.Second), WithResync(func(context.Context, []int) error {
					defer u.in(&u.read)()
					if reads++; c.hangs {
						sched.Receive(back)
					}
					return nil
				}))
				if err != nil {
					panic(err)
				}
				ctx, cancel := context.WithCancelCause(context.Background())
				var found error
				calls := 0
				returned := make(chan struct{})
				spawn("run", func() {
					defer close(returned)
					err := r.Run(ctx, SourceFunc[int](func(ctx context.Context, s Sink[int]) error {
						defer u.in(&u.source)()
						c.does(s, u)
						sched.Receive(ctx.Done())
						return nil
					}))
					apart, reading := peek(&r.calls).Int(), peek(&r.reading).Int()
					if calls = u.calls; err != ends || u.source+u.read+u.probe+u.signal > 0 || apart > 0 || reading > 0 { //nolint:errorlint // the very cause
						found = fmt.Errorf("Run has returned %v; %+v are running, %d apart, a read since %d", err, *u, apart, reading)
					}
					if peek(&r.hanging).Bool() || r.Stats().Running {
						found = errors.Join(found, errors.New("Run has returned, and a read hangs, or a source runs"))
					}
				})
				spawn("end", func() { sched.Yield(); cancel(ends) })
				spawn("time", func() {
					for range 3 { // what is said again
						sched.Advance(firstPause)
					}
					for _, d := range []time.Duration{time.Second, grace} { // the end of a bulk read
						sched.Pause(d, nil)
					}
					sched.Pause(0, nil)
					if peek(&r.hanging).Bool() {
						hangs++
					}
					close(back)
				})
				return func() error {
					probes, again = probes+u.probes, again+r.repeats.count.Load()
					if !sched.Closed(returned) || u.calls != calls {
						return errors.Join(found, fmt.Errorf("%d calls, and %d when Run returned", u.calls, calls))
					}
					return found
				}
			}
			r := explore.Exploration{Setup: setup}.Random(1, 15_000) // there are millions, even if nobody is interrupted
			if r.Failure != nil {
				t.Fatalf("%v, after %d schedules; replay %s", r.Failure, r.Schedules, r.Schedule)
			}
			t.Logf("%d schedules, %d differ; %d reads, %d hang, %d probes, %d said again", r.Schedules, r.Distinct, reads, hangs, probes, again)
			if reads == 0 && (name == "gap" || name == "hang") || probes == 0 && name == "probe" || again == 0 && name == "hint" || hangs == 0 && name == "hang" {
				t.Error("it has never been done")
			}
		})
	}
}
