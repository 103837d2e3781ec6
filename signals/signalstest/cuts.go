package signalstest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/signals"
)

// Outcome is what became of waits at random cuts.
type Outcome struct {
	Waits, Answered int
	Lost            int             // waits that were not answered although their key was written
	Twice           int             // answers beyond the first one of their wait
	Late            []time.Duration // from the write of its key to a wait's answer, sorted
	Stats           signals.Stats
}

// Quantile returns the duration that the given part of the waits did not exceed.
func (o Outcome) Quantile(part float64) time.Duration {
	if len(o.Late) == 0 {
		return 0
	}
	return o.Late[min(int(part*float64(len(o.Late))), len(o.Late)-1)]
}

func (o Outcome) String() string {
	return fmt.Sprintf("%d waits, %d answered, lost %d, answered twice %d; wake-up p50 %v, p99 %v, max %v; %d hints, %d gaps, %d re-checks",
		o.Waits, o.Answered, o.Lost, o.Twice, o.Quantile(0.5), o.Quantile(0.99), o.Quantile(1), o.Stats.Hints, o.Stats.Gaps, o.Stats.Rechecks)
}

// losesNothing is a check: see RandomCuts.
func losesNothing[K comparable](ctx context.Context, e Engine[K]) error {
	o, err := RandomCuts(ctx, e)
	if err == nil && (o.Lost > 0 || o.Twice > 0) {
		err = fmt.Errorf("lost, or answered twice: %v", o)
	}
	return err
}

// RandomCuts runs e.Cuts rounds. In each, e.Waits waits begin, each for a key of its own,
// every key is written, and the connection is cut at a random moment. A wait that has no
// answer e.Patience after the last write is lost; RandomCuts stops after a round with a
// lost wait.
//
// Every other wait is a [signals.AwaitRead] that reads e; the rest are operations with
// callbacks, whose condition is in memory. An answer is a read that says yes, or a call of
// OnComplete.
func RandomCuts[K comparable](ctx context.Context, e Engine[K]) (o Outcome, err error) {
	e = e.withDefaults()
	p, runner, stop, err := listen(ctx, signals.SourceFunc[K](e.run))
	if err != nil {
		return o, err
	}
	var all []*wait
	defer func() {
		err = errors.Join(err, stop())
		for _, w := range all { // an answer that comes after the end of its round counts too
			o.Twice += max(0, int(w.answers.Load())-1)
		}
	}()
	if err := stands(ctx, e, runner); err != nil {
		return o, err
	}
	for i := range e.Cuts {
		waits, err := round(ctx, e, p, i*e.Waits)
		if err != nil {
			return o, fmt.Errorf("round %d: %w", i, err)
		}
		all = append(all, waits...)
		for _, w := range waits {
			o.Waits++
			if w.lost {
				o.Lost++
				continue
			}
			o.Answered++
			o.Late = append(o.Late, w.late)
		}
		if o.Lost > 0 {
			break
		}
	}
	slices.Sort(o.Late)
	o.Stats = runner.Stats()
	return o, nil
}

// pause draws a pause that is shorter than limit.
func (e Engine[K]) pause(limit time.Duration) time.Duration {
	return time.Duration(e.pauses.Int64N(int64(limit)))
}

// options returns the options of a Runner whose source is run again soon. There are no audits, and
// repeats only if more says so: they would answer the waits that a source loses.
func options(more []signals.Option) []signals.Option {
	return append([]signals.Option{signals.WithAudit(0), signals.WithLag(0), signals.WithSpread(0), signals.WithBackoff(time.Millisecond, 20*time.Millisecond)}, more...)
}

// listen returns a purgatory to which source delivers hints until stop is called.
func listen[K comparable](ctx context.Context, source signals.Source[K], more ...signals.Option) (p *purgatory.Purgatory[K], r *signals.Runner[K], stop func() error, err error) {
	p, err = purgatory.New[K]("signalstest")
	if err != nil {
		return nil, nil, nil, err
	}
	r, err = signals.To(p, options(more)...)
	if err != nil {
		return nil, nil, nil, errors.Join(err, p.Close())
	}
	within, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { _ = r.Run(within, source) })
	return p, r, func() error { cancel(); running.Wait(); return p.Close() }, nil
}

// wait is a wait of a round. As an operation, its condition is that its key was written.
type wait struct {
	operation.DelayedOperation
	written  atomic.Int64 // when the write of its key began, in nanoseconds since the round began; 0: it has not
	began    time.Time    // when the round began
	answers  atomic.Int64
	answered time.Duration // since the round began: the first answer
	over     chan struct{} // closed after the first answer, or when the wait was given up
	late     time.Duration
	lost     bool
}

func (w *wait) TryComplete() bool { return w.written.Load() > 0 }
func (w *wait) OnExpiration()     {}

func (w *wait) OnComplete() {
	if w.Outcome() == operation.Satisfied {
		w.answer()
	}
	w.end()
}

func (w *wait) answer() {
	if w.answers.Add(1) == 1 {
		w.answered = time.Since(w.began)
	}
}

// end ends the wait, unless it has ended.
func (w *wait) end() {
	select {
	case <-w.over:
	default:
		close(w.over)
	}
}

// errGivenUp is the cause with which round ends the waits that have no answer.
var errGivenUp = errors.New("signalstest: given up")

// round is a round of RandomCuts, with keys from the given one on.
func round[K comparable](ctx context.Context, e Engine[K], p *purgatory.Purgatory[K], from int) (waits []*wait, err error) {
	within, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	waits = make([]*wait, e.Waits)
	failures := make([]error, e.Waits)
	began := time.Now()
	var reading, others sync.WaitGroup
	for i := range waits {
		w, key := &wait{began: began, over: make(chan struct{})}, e.Key(from+i)
		waits[i] = w
		if i%2 == 1 {
			_, failures[i] = p.TryCompleteElseWatch(w, time.Hour, key)
			continue
		}
		reading.Go(func() {
			defer w.end()
			_, err := signals.AwaitRead(within, p, time.Hour, func(ctx context.Context) (int64, bool, error) {
				value, err := e.Read(ctx, key)
				if err == nil && value > 0 {
					w.answer()
				}
				return value, value > 0, err
			}, key)
			if err != nil && within.Err() == nil {
				failures[i] = fmt.Errorf("wait for key %v: %w", key, err)
			}
		})
	}
	before := e.pause(e.Pause)
	others.Go(func() {
		time.Sleep(before)
		e.Cut()
	})
	for i, w := range waits {
		time.Sleep(e.pause(2*e.Pause/time.Duration(e.Waits) + 1))
		w.written.Store(int64(max(time.Since(began), 1)))
		if err = e.Write(ctx, e.Key(from+i), 1); err != nil {
			err = fmt.Errorf("write: %w", err)
			break
		}
	}
	others.Wait()
	patience := time.NewTimer(e.Patience)
	defer patience.Stop()
	for _, w := range waits {
		if err != nil {
			break
		}
		select {
		case <-w.over:
			continue
		case <-patience.C:
		}
		break
	}
	cancel(errGivenUp)
	reading.Wait()
	for i, w := range waits {
		if i%2 == 1 && failures[i] == nil {
			p.Cancel(w, errGivenUp)
			<-w.over
		}
		w.lost = w.answers.Load() == 0
		w.late = w.answered - time.Duration(w.written.Load())
	}
	return waits, errors.Join(append(failures, err)...)
}
