package signalstest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/signals"
)

// lagOfReads is how long the reads of survivesLag return the state from before a write.
const lagOfReads = 200 * time.Millisecond

// survivesLag checks that waits are answered whose reads lag behind the hints, as those at a
// replica do. Half of the waits begin before their key is written, and half of them between
// the write and the moment at which a read sees it.
func survivesLag[K comparable](ctx context.Context, e Engine[K]) error {
	var written sync.Map // by key: when
	return endsWaits(ctx, e, []signals.Option{signals.WithLag(lagOfReads)}, e.Waits, func(ctx context.Context, _ *signals.Runner[K], key K, i int, wait func(read func(context.Context) (bool, error)) error) error {
		read := func(ctx context.Context) (bool, error) {
			at, ok := written.Load(key)
			if !ok || time.Since(at.(time.Time)) < lagOfReads {
				return false, nil
			}
			value, err := e.Read(ctx, key)
			return value > 0, err
		}
		if i == 0 {
			time.Sleep(3 * lagOfReads) // the re-checks that follow the first subscription are over
		}
		if i%2 == 0 {
			if err := wait(read); err != nil {
				return err
			}
		}
		written.Store(key, time.Now()) // before the hint: on a busy machine Write may return long after it
		if err := e.Write(ctx, key, 1); err != nil {
			return err
		}
		if i%2 == 1 {
			return wait(read)
		}
		return nil
	})
}

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
	n := min(e.Cuts, 5) * len(e.Elsewhere)
	return endsWaits(ctx, e, []signals.Option{signals.WithLag(2 * time.Second)}, n, func(ctx context.Context, runner *signals.Runner[K], key K, i int, wait func(read func(context.Context) (bool, error)) error) error {
		err := wait(func(ctx context.Context) (bool, error) {
			value, err := e.Read(ctx, key)
			return value > 0, err
		})
		if err != nil {
			return err
		}
		gaps := runner.Stats().Gaps
		e.Cut()
		if !e.Resumes {
			if err := await(ctx, e, "a gap after a cut", func() bool { return runner.Stats().Gaps > gaps }); err != nil {
				return err
			}
		}
		return e.Elsewhere[i%len(e.Elsewhere)](ctx, key, 1)
	})
}

// survivesHang checks that a bulk read that hangs after a cut holds up no wait that reads for
// itself.
func survivesHang[K comparable](ctx context.Context, e Engine[K]) error {
	hang := make(chan struct{})
	e.release = func() { close(hang) }
	resync := signals.WithResync(func(context.Context, []K) error { <-hang; return nil })
	return endsWaits(ctx, e, []signals.Option{resync, signals.WithResyncLimit(time.Millisecond)}, e.Waits, func(ctx context.Context, _ *signals.Runner[K], key K, _ int, wait func(read func(context.Context) (bool, error)) error) error {
		err := wait(func(ctx context.Context) (bool, error) {
			value, err := e.Read(ctx, key)
			return value > 0, err
		})
		if err == nil {
			e.Cut()
			err = e.Write(ctx, key, 1)
		}
		return err
	})
}

// endsWaits runs e's source, without audits, calls do for each of n keys, and checks that
// every wait that do has begun is answered.
func endsWaits[K comparable](ctx context.Context, e Engine[K], more []signals.Option, n int,
	do func(ctx context.Context, runner *signals.Runner[K], key K, i int, wait func(read func(context.Context) (bool, error)) error) error,
) (err error) {
	p, runner, stop, err := listen(ctx, e.runs(e.Source()), more...)
	if err != nil {
		return err
	}
	defer func() {
		if e.release != nil {
			e.release()
		}
		err = errors.Join(err, stop())
	}()
	if err := stands(ctx, e, runner); err != nil {
		return err
	}
	within, cancel := context.WithCancel(ctx)
	var waiting sync.WaitGroup
	defer waiting.Wait()
	defer cancel()
	var answered atomic.Int64
	for i := range n {
		key := e.Key(i)
		err := do(within, runner, key, i, func(read func(context.Context) (bool, error)) error {
			first := make(chan error, 1)
			waiting.Go(func() {
				_, err := purgatory.AwaitRead(within, p, time.Hour, func(ctx context.Context) (bool, bool, error) {
					ok, err := read(ctx)
					select {
					case first <- err:
					default:
					}
					return ok, ok, err
				}, key)
				if err == nil {
					answered.Add(1)
				}
			})
			return receive(e, first, "the first read")
		})
		if err != nil {
			return fmt.Errorf("wait %d: %w", i, err)
		}
	}
	if err := await(ctx, e, "the answer to every wait", func() bool { return answered.Load() == int64(n) }); err != nil {
		return errors.Join(err, fmt.Errorf("%d of %d were answered", answered.Load(), n))
	}
	return nil
}
