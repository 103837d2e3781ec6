package recipes

import (
	"context"
	"time"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// poll ends with the request that it belongs to: it is cancelled when the client has gone.
type poll struct {
	operation.DelayedOperation
	ready  func() bool
	answer func(operation.Outcome, error)
	detach func() bool
}

func (r *poll) TryComplete() bool { return r.ready() }

func (r *poll) OnComplete() {
	r.detach() // or the context would hold the operation for as long as it lives
	r.answer(r.Outcome(), r.Cause())
}

func (r *poll) OnExpiration() {}

// await submits r. The context may end at any moment: before r waits, the last lines see it, afterwards
// AfterFunc does.
func (r *poll) await(ctx context.Context, p *purgatory.Purgatory[string],
	timeout time.Duration, key string,
) error {
	r.detach = context.AfterFunc(ctx, func() { p.Cancel(r, context.Cause(ctx)) })
	if _, err := p.TryCompleteElseWatch(r, timeout, key); err != nil {
		r.detach()
		return err
	}
	if ctx.Err() != nil {
		p.Cancel(r, context.Cause(ctx))
	}
	return nil
}
