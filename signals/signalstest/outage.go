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

func survives[K comparable](ctx context.Context, e Engine[K], rounds int, begin, end func()) (err error) {
	source := e.Source()
	p, runner, stop, err := listen(ctx, signals.SourceFunc[K](func(ctx context.Context, sink signals.Sink[K]) error {
		return source.Run(ctx, e.Middle(sink))
	}))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	stands := func() bool { return runner.Stats().Standing }
	for round := range rounds {
		if err := await(ctx, e, "the source stands", stands); err != nil {
			return err
		}
		if err := outage(ctx, e, p, e.Key(round), stands, begin, end); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
	}
	return nil
}

func outage[K comparable](ctx context.Context, e Engine[K], p *purgatory.DelayedOperationPurgatory[K], key K, stands func() bool, begin, end func()) error {
	within, cancel := context.WithCancel(ctx)
	var going sync.WaitGroup
	defer going.Wait()
	defer cancel()
	read, answered, written := make(chan error, 1), make(chan error, 1), make(chan error, 1)
	going.Go(func() {
		_, err := purgatory.AwaitRead(within, p, time.Hour, func(ctx context.Context) (int64, bool, error) {
			value, err := e.Read(ctx, key)
			select {
			case read <- nil:
			default:
			}
			return value, value > 0, err
		}, key)
		answered <- err
	})
	if err := receive(e, read, "the first read"); err != nil {
		return err
	}
	begin()
	err := await(ctx, e, "the runner says that the source does not stand", func() bool { return !stands() })
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

// receive returns what comes from c; it fails after e.Patience.
func receive[K comparable](e Engine[K], c <-chan error, what string) error {
	select {
	case err := <-c:
		return err
	case <-time.After(e.Patience):
		return fmt.Errorf("%w within %v: %s", errPatience, e.Patience, what)
	}
}
