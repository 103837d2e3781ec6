package debug

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/signals"
)

// A Source may be a type of the user's. Its panic must end neither the program nor the page: the sampler has a goroutine of
// its own, and the other purgatories are to be seen.

// guarded calls f and returns what it panicked with, nil if it did not. It has a goroutine of its own, which f may end.
func guarded(f func()) (failure error) {
	failure = errExited
	var called sync.WaitGroup
	called.Go(func() {
		defer func() {
			if v := recover(); v != nil {
				failure = fmt.Errorf("%v", v)
			}
		}()
		f()
		failure = nil
	})
	called.Wait()
	return failure
}

// errExited: a source has ended its goroutine.
var errExited = errors.New("it called runtime.Goexit")

// failed is the note about a source that panicked. What it panicked with may hold what clients have sent.
func failed(failure error, hidden bool) []Note {
	text := "its numbers are not known: the source panicked"
	if !hidden {
		text += ": " + failure.Error()
	}
	return []Note{{stateTrouble, text}}
}

// nameOf returns the name of s as it can be shown and asked for: JSON and addresses hold valid UTF-8 only.
func nameOf(s Source) (name string) {
	if guarded(func() { name = s.Name() }) != nil {
		return "(no name)"
	}
	return strings.ToValidUTF8(name, "\uFFFD")
}

// startedAgain reports whether a counter is lower than it was: the source then stands for another purgatory than before, and
// nothing can be said about what has happened in between.
func startedAgain(before, now *purgatory.Stats) bool {
	return now.Accepted < before.Accepted || now.Satisfied < before.Satisfied || now.Forced < before.Forced || now.Expired < before.Expired ||
		now.Cancelled < before.Cancelled || now.Closed < before.Closed || now.Rejected < before.Rejected || now.RejectedFull < before.RejectedFull ||
		now.WastedChecks < before.WastedChecks || now.Checks < before.Checks || now.Signals < before.Signals ||
		now.Panics < before.Panics || now.PassedOver < before.PassedOver || now.SlowCallbacks < before.SlowCallbacks ||
		now.ReaperStalls < before.ReaperStalls || now.Late.Count() < before.Late.Count()
}

// ranAnew is startedAgain for a source of hints.
func ranAnew(before, now *signals.Stats) bool {
	return now.Hints < before.Hints || now.Gaps < before.Gaps || now.Ends < before.Ends || now.Rechecks < before.Rechecks ||
		now.BulkReads < before.BulkReads || now.Failures < before.Failures
}
