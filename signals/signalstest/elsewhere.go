package signalstest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/delayedop/purgatory/signals"
)

// hearsFromElsewhere checks that the source hears what each of e.Elsewhere writes, some time
// after it has subscribed, and that waits are answered whose keys are written there as soon as
// the source stands again after a cut.
func hearsFromElsewhere[K comparable](ctx context.Context, e Engine[K]) error {
	r := &recorder[K]{}
	_, stop, err := keepRunning(ctx, e, r)
	if err != nil {
		return err
	}
	for i, write := range e.Elsewhere {
		key := e.Key(1_000_000 + i)
		err := await(ctx, e, fmt.Sprintf("a hint from elsewhere, %d", i), func() bool {
			if err := write(ctx, key, 1); err != nil {
				return false
			}
			time.Sleep(10 * time.Millisecond)
			return r.changes(key) > 0
		})
		if err != nil {
			stop()
			return err
		}
	}
	stop()
	return answersFromElsewhere(ctx, e)
}

// answersFromElsewhere is the second part of hearsFromElsewhere.
func answersFromElsewhere[K comparable](ctx context.Context, e Engine[K]) (err error) {
	p, runner, stop, err := listen(ctx, e.runs(e.Source()), signals.WithLag(2*time.Second))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	if err := stands(ctx, e, runner); err != nil {
		return err
	}
	within, cancel := context.WithCancel(ctx)
	var going sync.WaitGroup
	defer going.Wait()
	defer cancel()
	answers := make([]<-chan error, min(e.Cuts, 5)*len(e.Elsewhere))
	for i := range answers {
		if answers[i], err = asleep(within, e, p, e.Key(i), &going); err != nil {
			return fmt.Errorf("wait %d: %w", i, err)
		}
		gaps := runner.Stats().Gaps
		e.Cut()
		if !e.Resumes {
			if err := await(ctx, e, "a gap after a cut", func() bool { return runner.Stats().Gaps > gaps }); err != nil {
				return err
			}
		}
		if err := e.Elsewhere[i%len(e.Elsewhere)](ctx, e.Key(i), 1); err != nil {
			return fmt.Errorf("write: %w", err)
		}
	}
	for i, answered := range answers {
		if err := receive(e, answered, fmt.Sprintf("the answer to wait %d of %d", i, len(answers))); err != nil {
			return err
		}
	}
	return nil
}
