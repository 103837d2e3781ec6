package watermark

import (
	"fmt"

	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/purgatory"
)

// Wait is a wait that a goroutine can select on, beside its other channels: see
// [Watermark.StartWait]. It is safe for concurrent use.
type Wait[K comparable] struct {
	s       *shared[K]
	m       member
	stopped sched.Bool
}

// StartWait is [Watermark.Await] that does not block: it returns a Wait, whose channel is closed when
// the wait has ended. Waits for one position share the channel with each other and with those in Await.
//
//	reached, err := w.StartWait(index)
//	if err != nil {
//		return err
//	}
//	defer reached.Stop()
//	select {
//	case <-reached.Done():
//		return reached.Err() // nil: it is applied
//	case <-quit:
//		return errQuit
//	}
//
// Call Stop when you no longer need the Wait: otherwise its operation stays until w reaches the position or
// is closed. After the channel has been closed nothing is left to stop. If w has come as far already, the
// channel is closed when StartWait returns.
//
// Errors: those of Await, except those of a context and of a timeout. If another goroutine is registering a wait for the
// same position at this moment, and the purgatory refuses that, the Wait ends with the refusal: look at Err.
func (w *Watermark[K]) StartWait(position int64) (*Wait[K], error) {
	if w.closed.Load() {
		return nil, w.cause
	}
	wait := new(Wait[K])
	who := arrives()
	who.keeps, who.m = true, &wait.m
	s, _, starts, err := w.enter(who, position)
	if err != nil {
		return nil, err
	}
	if s == nil {
		s = &shared[K]{w: w, position: position, crowd: &crowd{over: make(chan struct{}), ended: true, verdict: &reached}}
		close(s.over)
	}
	if starts {
		if err = s.start(); err != nil {
			return nil, err
		}
	}
	wait.s = s
	return wait, nil
}

// Done returns a channel that is closed when the wait has ended.
func (w *Wait[K]) Done() <-chan struct{} { return w.s.over }

// Err returns how the wait has ended, with the errors of [Watermark.Await]: nil if the position was
// reached. Call it after Done's channel is closed; before, it returns purgatory.ErrPending.
func (w *Wait[K]) Err() error {
	select {
	case <-w.s.over:
		return w.s.err()
	default:
		return fmt.Errorf("%w: position %d", purgatory.ErrPending, w.s.position)
	}
}

// Stop leaves the wait and reports whether this call has done so. It returns false if the wait has ended or
// was stopped before. [Stats] counts it as left, or as served if w had come as far. When all that share an operation have left it, nothing is left of it. After Stop, Done and
// Err say how it went on for the others, if there are any.
func (w *Wait[K]) Stop() bool {
	return !w.stopped.Swap(true) && w.s.w.leave(w.s, &w.m, givesUp) != stays
}
