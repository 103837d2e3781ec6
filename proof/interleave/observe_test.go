//go:build interleave

package interleave

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/proof/explore"
	"github.com/delayedop/purgatory/purgatory"
)

// gauges are the numbers of Stats that may go back. All others are counters.
var gauges = []string{"Pending", "Watched", "Keys", "Stale", "MaxPending", "Running", "BlockedFor", "Due", "OldestDue"}

// goesOn reports what is wrong with two pictures of one thing, taken one after the other: a number is negative, or a counter goes back.
func goesOn(before, after any) (err error) {
	b, a := reflect.ValueOf(before), reflect.ValueOf(after)
	for i := range a.NumField() {
		if name := a.Type().Field(i).Name; a.Field(i).CanInt() && (a.Field(i).Int() < 0 || a.Field(i).Int() < b.Field(i).Int() && !slices.Contains(gauges, name)) {
			err = errors.Join(err, fmt.Errorf("%s is %d, and was %d", name, a.Field(i).Int(), b.Field(i).Int()))
		}
	}
	return err
}

// observe looks at p in one moment, whatever the others have come to: what the documentation says of a picture is true in each.
func observe(e *env) {
	before := e.p.Stats()
	if err := goesOn(before, e.p.Stats()); err != nil {
		e.fail("%w", err)
	}
	var s purgatory.Stats
	var in purgatory.Inspection
	var wrong []string
	is := func(ok bool, what string) {
		if !ok {
			wrong = append(wrong, what)
		}
	}
	if !explore.Alone(func() {
		s, in = e.p.Stats(), e.p.Inspect(4)
		open, calling, ended := 0, false, [operation.NumOutcomes]int64{}
		for _, o := range []*op{e.op, e.other} {
			if ended[o.Outcome()]++; o.Outcome() == operation.Pending && o.tries > 0 {
				open++
			}
			calling = calling || o.calling
			is((o.Outcome() == operation.Cancelled) == (o.Cause() != nil), "cause")
			is(o.completed == 0 || o.Outcome() != operation.Pending, "a callback before the end")
		}
		var sum int64
		for o := operation.Satisfied; o < operation.NumOutcomes; o++ {
			sum += s.Ended(o)
			is(s.Ended(o) >= ended[o], "an outcome that is not counted")
		}
		is(s.Accepted == s.Pending+sum && s.Rejected == s.RejectedClosed+s.RejectedFull+s.RejectedInput, "sums")
		is(s.WastedChecks <= s.Checks && s.Unchecked <= s.Expired && s.GaveUp <= s.Cancelled && s.Keys <= s.Watched, "parts")
		is(s.Pending <= int64(open) && e.clock.Pending() <= open+len(e.full), "one that has ended is still there")
		is(s.Pending == int64(e.p.NumDelayed()) && s.Watched == int64(e.p.Watched()), "what is said twice")
		is(!calling || s.Running > 0, "a callback that nobody runs")
		watched, keys, most := 0, 0, 0
		for range e.p.Keys() {
			keys++
		}
		for _, key := range e.keys {
			n := e.p.Waiting(key)
			watched, most = watched+n, max(most, n)
			is(n <= open, "waiting")
		}
		is(s.Watched == int64(watched) && s.Keys == int64(keys) && in.Waiting == most && (in.Busiest != "") == (most > 0), "keys")
		is(len(in.Oldest) <= open && in.Looked >= len(in.Oldest) && int64(len(in.Unchecked)) <= s.Unchecked && int64(len(in.NeverTrue)) <= s.Expired-s.Unchecked, "rows")
	}) {
		return
	}
	for _, row := range in.Oldest {
		is(row.Type == "*interleave.op" && row.Age >= 0 && (row.Left == purgatory.NoTimeout || row.Left <= longer), "row")
	}
	if len(wrong) > 0 {
		e.fail("%s: %+v, %+v", strings.Join(wrong, ", "), s, in)
	}
}
