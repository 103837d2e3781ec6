package purgatory

import (
	"fmt"

	"github.com/delayedop/purgatory/internal/guard"
	"github.com/delayedop/purgatory/watchers"
)

// describe returns what a waiting operation says of itself. It is held meanwhile, as
// for a check that says no: String does not race with the operation's own methods,
// and who comes by leaves a mark that is seen afterwards.
func (p *DelayedOperationPurgatory[K]) describe(w *watchers.Waiting[K]) (text string) {
	s, ok := w.Machine.Operation().(fmt.Stringer)
	if !ok || !w.Machine.Hold() {
		return ""
	}
	defer p.letGoAfter(w)
	guard.Call(func() { text = cut(s.String()) }, p.panicked)
	return text
}

// letGoAfter lets go of an operation that is held, and does what was asked of its
// holder, as a check does.
func (p *DelayedOperationPurgatory[K]) letGoAfter(w *watchers.Waiting[K]) {
	c := p.checks.Get().(*check[K])
	c.shard = p.watchers.Shard(w.Hash)
	c.cursor.At(w.Key, w.Hash)
	c.ops[0], c.at, c.n = w.Machine, 0, 1
	c.holding, c.looks = true, 0
	c.saidNo()
	c.no-- // that was no try
	c.finish()
}
