package purgatory

import (
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/delayedop/purgatory/internal/guard"
	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/watchers"
)

// WithForgottenChecks finds changes of state that no check has followed. When the timeout of an
// operation has passed, a worker tries the operation once more. If its condition is met, the
// operation ends as satisfied. If no check or signal of one of its keys comes within grace after
// that, the purgatory counts it (see [Stats] and [KeyReport]) and logs [EventForgotten], with the
// key. So a check that is merely late is none that was forgotten; a second is a good grace. With
// a grace of 0 an operation counts unless a check or a signal of one of its keys is under way.
//
// Operations whose condition depends on time itself have a method DependsOnTime(), without a
// result. There is no last try for them, for waits without a key, and for an operation whose timeout
// passes while another goroutine tries it. CancelForKey and CompleteForKey count as checks of their
// key. Operations that end before their timeout pay one comparison for each check. Default: off.
func WithForgottenChecks(grace time.Duration) Option {
	return func(c *config) { c.lastTry, c.grace = true, grace }
}

// timeDependent is implemented by operations that [WithForgottenChecks] leaves alone.
type timeDependent interface{ DependsOnTime() }

// forgotten has the operations that were ready at their timeout, and whose keys nobody has
// checked since. It is safe for concurrent use.
type forgotten[K comparable] struct {
	p       *DelayedOperationPurgatory[K]
	waiting sched.Int64 // the number of suspects
	counted sched.Int64

	mu struct { // lock level 8, taken with no other held
		sched.Mutex
		suspects map[*suspect[K]]*sched.Timer // whoever stops the timer takes the suspect out; else the timer notes it, and does
	}
}

// suspect is an operation that was ready at its timeout.
type suspect[K comparable] struct {
	keys []K
	text string
}

// lastTry tries m, which the caller holds and whose timeout has passed, once more, and reports
// whether its condition is met. TryComplete runs apart: a runtime.Goexit must not keep m from
// ending.
//
// m is no suspect if a check or a signal has come, or Close:
//
//  1. A signal waits for a worker.
//  2. A check has found m held, and has asked for a try.
//  3. A check or a signal finds m no more. It calls checked after that, and so takes the suspect
//     out.
//  4. Close has begun. It calls checkedAll after it has said so.
//
// lastTry looks for 1, 2 and 4 again when the suspect is there: what has come since the first look
// may have called checked too early.
func (f *forgotten[K]) lastTry(m *machine.Machine) (met bool) {
	_, depends := m.Operation().(timeDependent)
	if _, hash := watchers.FirstKey[K](m); depends || hash == f.p.noKey { // nobody can check who waits without a key
		return false
	}
	keys := watchers.Keys[K](m)
	guard.Apart(func() {
		h := machine.Hold{Machine: m, Op: m.Operation()}
		end, _ := h.Try(false)
		met = end == machine.Satisfied
	}, f.p.blame(m, kindOf(m.Operation()), "TryComplete", keys[0]))
	if !met {
		return false
	}
	s := &suspect[K]{keys: keys, text: nameOf(m, func(any, []byte) {})}
	switch {
	case f.excused(m):
	case f.p.cfg.grace == 0:
		f.note(s)
	default:
		if f.add(s); f.excused(m) {
			f.drop(func(other *suspect[K]) bool { return other == s })
		}
	}
	return true
}

// excused reports whether a signal of a key of m waits for a worker, a check has asked for a try
// of m, which the caller holds, or Close has begun.
func (f *forgotten[K]) excused(m *machine.Machine) bool {
	return m.Asked() || watchers.SignalWaits[K](m) || f.p.crew.all.Load() || f.p.closed.Load()
}

// add adds s, which counts unless one of its keys is checked before the grace has passed.
func (f *forgotten[K]) add(s *suspect[K]) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.suspects == nil {
		f.mu.suspects = make(map[*suspect[K]]*sched.Timer)
	}
	f.mu.suspects[s] = sched.AfterFunc(f.p.cfg.grace, func() {
		f.note(s)
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.mu.suspects, s)
		f.waiting.Add(-1) // Shutdown waits for it
	})
	f.waiting.Add(1)
}

// checked takes out those that have waited for key. Every check and signal calls it.
func (f *forgotten[K]) checked(key K) {
	f.drop(func(s *suspect[K]) bool { return slices.Contains(s.keys, key) })
}

// checkedAll takes out all suspects.
func (f *forgotten[K]) checkedAll() { f.drop(func(*suspect[K]) bool { return true }) }

// drop takes out those for which match returns true, and whose grace has not passed.
func (f *forgotten[K]) drop(match func(*suspect[K]) bool) {
	if f.waiting.Load() == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.DeleteFunc(f.mu.suspects, func(s *suspect[K], grace *sched.Timer) bool { return match(s) && grace.Stop() })
	f.waiting.Store(int64(len(f.mu.suspects)))
}

// note counts and logs a check that was forgotten.
func (f *forgotten[K]) note(s *suspect[K]) {
	f.counted.Add(1)
	for _, key := range s.keys {
		hash := f.p.watchers.Hash(key)
		f.p.watchers.Shard(hash).KeyForgotten(key, hash)
	}
	f.p.log(slog.LevelWarn, EventForgotten, "operation", s.text, "key", keyText(s.keys[0]), "keys", len(s.keys))
}
