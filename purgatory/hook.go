package purgatory

import (
	"fmt"
	"math"

	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/internal/testhook"
	"github.com/delayedop/purgatory/watchers"
)

// WithHook is for package purgatorytest: no code outside this module can make a Hook.
func WithHook(h *testhook.Hook) Option { return func(c *config) { c.hook = h } }

func (p *Purgatory[K]) hooked(h *testhook.Hook) {
	h.Idle = p.crew.idle
	h.Registered = func() bool {
		for f := range p.watchers.Each(math.MaxInt) {
			if !f.Machine.AcceptedBy(p.id) && f.Machine.Outcome() == machine.Pending {
				return false
			}
		}
		return true
	}
}

// lastTry reports whether m, which the caller holds and whose timeout has passed, ends as satisfied.
func (p *Purgatory[K]) lastTry(h *testhook.Hook, m *machine.Machine) (met bool) {
	e := testhook.Expiring{Machine: m, Name: func() string { return fmt.Sprintf("%T", m.Operation()) }}
	waits := watchers.Waits[K](m)
	e.Panicked = func(v any, _ []byte) { p.records.Panic(v, m.Operation(), "TryComplete", waits[0].Key) }
	for _, w := range waits {
		e.Keys, e.Positions = append(e.Keys, w.Key), append(e.Positions, w.Position)
	}
	return h.Expire(&e)
}
