package purgatory

import (
	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/internal/observe"
	"github.com/delayedop/purgatory/internal/testhook"
	"github.com/delayedop/purgatory/watchers"
)

// WithHook is for package purgatorytest: no code outside this module can make a Hook.
func WithHook(h *testhook.Hook) Option { return func(c *config) { c.hook = h } }

// lastTry asks h about m, which the caller holds and whose timeout has passed. It reports whether
// m ends as satisfied. Nobody can check an operation that waits without a key.
func (p *DelayedOperationPurgatory[K]) lastTry(h *testhook.Hook, m *machine.Machine) (met bool) {
	key, hash := watchers.FirstKey[K](m)
	if hash == p.watchers.NoKey {
		return false
	}
	e := testhook.Expiring{Machine: m, First: watchers.First[K](m), Line: p.cfg.firstInFirstOut}
	e.Name = func() string { return observe.Name(m, func(any, []byte) {}) }
	e.Panicked = p.records.Blame(m, observe.Kind(m.Operation()), "TryComplete", key)
	for _, key := range watchers.Keys[K](m) {
		e.Keys = append(e.Keys, key)
	}
	return h.Expire(&e)
}
