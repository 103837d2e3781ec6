package purgatory_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// longPoll is an operation that is cancelled when its request's context ends.
type longPoll struct {
	operation.DelayedOperation
	answered chan error
	detach   func() bool // from the context
}

// start submits l.
func (l *longPoll) start(ctx context.Context, p *purgatory.Purgatory[string]) error {
	l.detach = context.AfterFunc(ctx, func() { p.Cancel(l, context.Cause(ctx)) })
	if _, err := p.TryCompleteElseWatch(l, time.Minute, "news"); err != nil {
		l.detach()
		return err
	}
	if ctx.Err() != nil { // AfterFunc may have called Cancel before l was submitted
		p.Cancel(l, context.Cause(ctx))
	}
	return nil
}

func (l *longPoll) TryComplete() bool { return false }

func (l *longPoll) OnComplete() {
	l.detach() // otherwise the context refers to l until it ends
	l.answered <- l.Cause()
}

func (l *longPoll) OnExpiration() {}

// An operation ends with the context of its request. Await does this by itself.
func Example_requestContext() {
	p, _ := purgatory.New[string]("longpoll")
	defer p.Close()

	ctx, cancel := context.WithCancelCause(context.Background())
	poll := &longPoll{answered: make(chan error, 1)}
	if err := poll.start(ctx, p); err != nil {
		fmt.Println(err)
	}
	cancel(errors.New("the client has gone"))
	fmt.Println(<-poll.answered)
	fmt.Println(poll.Outcome())
	// Output:
	// the client has gone
	// cancelled
}
