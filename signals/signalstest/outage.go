package signalstest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/signals"
)

// survivesOutage stops the engine while a wait sleeps, has its key written as soon as the
// engine can be reached, and checks that the wait is answered. One source is run again and
// again. While the engine is stopped, the runner must not say that the source stands.
func survivesOutage[K comparable](ctx context.Context, e Engine[K]) error {
	return survives(ctx, e, 3, e.Stop, e.Start)
}

// survivesRevocation is survivesOutage for a server that takes away the source's rights.
func survivesRevocation[K comparable](ctx context.Context, e Engine[K]) error {
	return survives(ctx, e, 1, e.Revoke, e.Restore)
}

// survivesDeafness is survivesOutage for an engine that delivers nothing, and breaks nothing.
func survivesDeafness[K comparable](ctx context.Context, e Engine[K]) error {
	return survives(ctx, e, 1, e.Deafen, e.Undeafen)
}

// standsNotWhereDeaf runs a source at an engine that delivers nothing, and checks that it does not
// stand, ends, and stands when the engine delivers.
func standsNotWhereDeaf[K comparable](ctx context.Context, e Engine[K]) error {
	e.Deafen()
	runner, stop, err := keepRunning(ctx, e, &recorder[K]{})
	if err != nil {
		return err
	}
	defer stop()
	var stood bool
	err = await(ctx, e, "the end of a source that hears nothing", func() bool {
		s := runner.Stats()
		stood = stood || s.Standing
		return stood || s.Ends > 0
	})
	e.Undeafen()
	switch {
	case err != nil:
		return err
	case stood:
		return errors.New("the source stands, and the engine has delivered nothing")
	}
	return stands(ctx, e, runner)
}

func survives[K comparable](ctx context.Context, e Engine[K], rounds int, begin, end func()) (err error) {
	p, runner, stop, err := listen(ctx, e.runs(e.Source()))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	for round := range rounds {
		if err := stands(ctx, e, runner); err != nil {
			return err
		}
		if err := outage(ctx, e, p, e.Key(round), runner, begin, end); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
	}
	return nil
}

func outage[K comparable](ctx context.Context, e Engine[K], p *purgatory.Purgatory[K], key K, runner *signals.Runner[K], begin, end func()) error {
	within, cancel := context.WithCancel(ctx)
	var going sync.WaitGroup
	defer going.Wait()
	defer cancel()
	answered, err := asleep(within, e, p, key, &going)
	if err != nil {
		return err
	}
	written := make(chan error, 1)
	begin()
	err = await(ctx, e, "the runner says that the source does not stand", func() bool { return !runner.Stats().Standing })
	going.Go(func() { written <- e.Write(within, key, 1) })
	end()
	if err != nil {
		return err
	}
	if err := receive(e, written, "the write"); err != nil {
		return err
	}
	return receive(e, answered, "the answer to a wait whose key was written")
}

// asleep has a goroutine of going wait until key has been written, and returns when it has read once. Its
// answer comes through answered.
func asleep[K comparable](ctx context.Context, e Engine[K], p *purgatory.Purgatory[K], key K, going *sync.WaitGroup) (answered <-chan error, err error) {
	read, answer := make(chan error, 1), make(chan error, 1)
	going.Go(func() {
		_, err := signals.AwaitRead(ctx, p, time.Hour, func(ctx context.Context) (int64, bool, error) {
			value, err := e.Read(ctx, key)
			select {
			case read <- nil:
			default:
			}
			return value, value > 0, err
		}, key)
		answer <- err
	})
	return answer, receive(e, read, "the first read")
}

// receive returns what comes from c; it fails after e.Patience.
func receive[K comparable](e Engine[K], c <-chan error, what string) error {
	select {
	case err := <-c:
		return err
	case <-time.After(e.Patience):
		return fmt.Errorf("%w within %v: %s", errPatience, e.Patience, what)
	}
}
