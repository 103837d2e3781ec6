package signalstest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime/pprof"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/delayedop/purgatory/signals"
)

// standsFirst checks that every hint arrives for what is written after the source stands.
func standsFirst[K comparable](ctx context.Context, e Engine[K]) error {
	r := &recorder[K]{}
	runner, stop, err := keepRunning(ctx, e, r)
	if err != nil {
		return err
	}
	defer stop()
	if err := stands(ctx, e, runner); err != nil {
		return err
	}
	for i := range 10 {
		before := r.calls()
		if err := e.Write(ctx, e.Key(i), int64(i+1)); err != nil {
			return fmt.Errorf("write: %w", err)
		}
		if err := await(ctx, e, fmt.Sprintf("a hint for key %v", e.Key(i)), func() bool { return r.heard(e.Key(i), before) }); err != nil {
			return err
		}
	}
	return nil
}

// hearsAfterRecheck writes inside a re-check, and checks that there is a hint for that write or
// another re-check. A source that stands before the engine has confirmed its subscription loses
// the hint. If the source resumes, the writes after the first one follow cuts.
func hearsAfterRecheck[K comparable](ctx context.Context, e Engine[K]) error {
	r := &recorder[K]{}
	type change struct {
		key   K
		after int
	}
	changes := make(chan change, 10_000)
	failed := make(chan error, 10_000)
	var i atomic.Int64
	r.onRecheck = func() {
		n := int(i.Add(1))
		key, after := e.Key(n), r.calls()
		if err := e.Write(ctx, key, int64(n)); err != nil && ctx.Err() == nil {
			failed <- fmt.Errorf("write: %w", err)
		}
		changes <- change{key, after}
	}
	_, stop, err := keepRunning(ctx, e, r)
	if err != nil {
		return err
	}
	defer stop()
	for round := range min(e.Cuts, 20) {
		if e.Resumes && round > 0 {
			r.onRecheck()
		}
		var c change
		select {
		case c = <-changes:
		case err := <-failed:
			return err
		case <-time.After(e.Patience):
			return fmt.Errorf("round %d: %w within %v: a re-check after a cut", round, errPatience, e.Patience)
		}
		what := fmt.Sprintf("round %d: a hint for what changed inside a re-check, or another re-check", round)
		if err := await(ctx, e, what, func() bool { return r.heard(c.key, c.after) }); err != nil {
			return err
		}
		for len(changes) > 0 {
			<-changes
		}
		e.Cut()
	}
	return nil
}

// saysOverflow checks that a source that loses hints because its sink is slow says so.
func saysOverflow[K comparable](ctx context.Context, e Engine[K]) error {
	r := &recorder[K]{block: make(chan struct{})}
	var released atomic.Bool
	release := func() {
		if !released.Swap(true) {
			close(r.block)
		}
	}
	runner, stop, err := keepRunning(ctx, e, r)
	if err != nil {
		return err
	}
	defer stop()
	defer release() // runs before stop, which would otherwise wait for Changed
	if err := stands(ctx, e, runner); err != nil {
		return err
	}
	if err := await(ctx, e, "the first re-check", func() bool { return r.rechecks() > 0 }); err != nil {
		return err
	}
	if err := e.Overflow(ctx, release); err != nil {
		return fmt.Errorf("overflow: %w", err)
	}
	release()
	return await(ctx, e, "a re-check after an overflow", func() bool { return r.rechecks() > 1 })
}

var errOver = errors.New("over")

// endsWithContext checks that Run returns when its context ends, at several points of a
// subscription, and does not call the sink afterwards.
func endsWithContext[K comparable](ctx context.Context, e Engine[K]) error {
	for name, when := range map[string]func(r *signals.Runner[K]) error{
		"at once": func(*signals.Runner[K]) error { return nil },
		"while it subscribes": func(*signals.Runner[K]) error {
			time.Sleep(time.Millisecond)
			return nil
		},
		"while it stands": func(r *signals.Runner[K]) error { return stands(ctx, e, r) },
		"after a cut": func(r *signals.Runner[K]) error {
			err := stands(ctx, e, r)
			e.Cut()
			return err
		},
	} {
		runner, stop, err := keepRunning(ctx, e, &recorder[K]{})
		if err != nil {
			return err
		}
		err = when(runner)
		done := make(chan struct{})
		go func() { stop(); close(done) }()
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		select {
		case <-done:
		case <-time.After(e.Patience):
			return fmt.Errorf("%s: Run has not returned %v after its context ended", name, e.Patience)
		}
		for i := range 20 {
			if err := e.Write(ctx, e.Key(i), 1); err != nil {
				return fmt.Errorf("write: %w", err)
			}
		}
		time.Sleep(5 * time.Millisecond) // leaves time for a call that would be an error
		if late := e.late.Load(); late > 0 {
			return fmt.Errorf("%s: the sink was called %d times after Run had returned", name, late)
		}
	}
	return nil
}

// label is the profiler label of the goroutines that a source starts: a goroutine inherits
// the labels of its creator.
const label = "signalstest-source"

var runs atomic.Int64

// leavesNothing checks that every goroutine that Run has started ends.
func leavesNothing[K comparable](ctx context.Context, e Engine[K]) error {
	mark := strconv.FormatInt(runs.Add(1), 10)
	for range 5 {
		var runner *signals.Runner[K]
		var stop func()
		var err error
		pprof.Do(ctx, pprof.Labels(label, mark), func(ctx context.Context) { runner, stop, err = keepRunning(ctx, e, &recorder[K]{}) })
		if err != nil {
			return err
		}
		err = stands(ctx, e, runner)
		e.Cut()
		stop()
		if err != nil {
			return err
		}
	}
	want := fmt.Sprintf("%q:%q", label, mark)
	var found string
	err := await(ctx, e, "the end of every goroutine", func() bool {
		found = goroutines(want)
		return found == ""
	})
	if err != nil {
		return fmt.Errorf("%w; left:\n%s", err, found)
	}
	return nil
}

// goroutines returns the stacks of the goroutines whose labels contain with.
func goroutines(with string) string {
	var profile bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&profile, 1)
	var found bytes.Buffer
	for stack := range bytes.SplitSeq(profile.Bytes(), []byte("\n\n")) {
		if bytes.Contains(stack, []byte(with)) {
			found.Write(stack)
			found.WriteString("\n\n")
		}
	}
	return found.String()
}
