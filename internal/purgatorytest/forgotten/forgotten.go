// Package forgotten finds changes of state that no check has followed, for tests: operations that
// are ready when their timeout passes, although no check or signal of one of their keys is under
// way.
package forgotten

import (
	"fmt"
	"math"
	"strings"

	"github.com/delayedop/purgatory/internal/guard"
	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/internal/testhook"
)

// timeDependent is implemented by operations whose condition depends on time itself.
type timeDependent interface{ DependsOnTime() }

// Judge follows one purgatory by its Hook. It is safe for concurrent use.
type Judge struct {
	hook testhook.Hook

	mu struct {
		sched.Mutex
		keys     map[any]*key
		walks    int // under way
		findings []finding
	}
}

// key is what the Judge knows of a key.
type key struct {
	walks int // under way
	calls calls
}

// calls are the checks and signals of a key.
type calls struct {
	n    int
	upTo int64 // the highest position of one
}

// finding is an operation that was ready at its timeout.
type finding struct {
	name    string
	checked bool // a check has come to it
	waits   []wait
}

// wait is a key that an operation waited for.
type wait struct {
	key      any
	text     string // of key
	position int64
	calls    calls // when the operation ended
}

// New returns a Judge. found, if it is not nil, is called with the text of each finding.
func New(found func(text string)) *Judge {
	j := &Judge{}
	j.mu.keys = make(map[any]*key)
	j.hook = testhook.Hook{Called: j.called, Walk: j.walk, Refuse: func() bool { return false }, Await: func() {}, Expire: func(e *testhook.Expiring) bool {
		met, f := j.expire(e)
		if f != nil && found != nil {
			found(f.text(j))
		}
		return met
	}}
	return j
}

// Hook returns the Hook for [purgatory.WithHook].
func (j *Judge) Hook() *testhook.Hook { return &j.hook }

// keyLocked returns what j knows of k.
func (j *Judge) keyLocked(k any) *key {
	known := j.mu.keys[k]
	if known == nil {
		known = &key{}
		j.mu.keys[k] = known
	}
	return known
}

func (j *Judge) called(k any, upTo int64, _ bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	c := &j.keyLocked(k).calls
	if c.n++; c.n == 1 || upTo > c.upTo {
		c.upTo = upTo
	}
}

func (j *Judge) walk(k any, n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.mu.walks += n
	j.keyLocked(k).walks += n
}

// AtRest reports whether no check and no signal is under way.
func (j *Judge) AtRest() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.mu.walks == 0 && j.hook.Idle()
}

// expire looks at an operation that the caller holds, and reports whether it was ready. It returns
// a finding if somebody has forgotten the check.
func (j *Judge) expire(e *testhook.Expiring) (met bool, f *finding) {
	if _, depends := e.Operation().(timeDependent); depends || j.excuses(e) {
		return false, nil
	}
	done := make(chan struct{})
	sched.Go(func() { // a runtime.Goexit must not keep the operation from ending
		defer close(done)
		guard.Call(func() { met = e.Try() }, e.Panicked)
	})
	sched.Receive(done)
	if !met || j.excuses(e) {
		return met, nil
	}
	f = &finding{name: e.Name(), checked: e.Checked()}
	for i, k := range e.Keys {
		f.waits = append(f.waits, wait{key: k, text: guard.Text(k), position: e.Positions[i]})
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for i := range f.waits {
		w := &f.waits[i]
		w.calls = j.keyLocked(w.key).calls
	}
	j.mu.findings = append(j.mu.findings, *f)
	return true, f
}

// excuses reports whether a check or a signal may be under way that tries e, or has tried it since
// the caller holds it. While the caller does, e stands in its lists. So every check that comes asks
// for a try, and each of these conditions ends only when the next has begun:
//
//  1. A signal waits for a worker.
//  2. A signal worker runs.
//  3. The operations of one of the keys are being tried or ended.
//  4. Somebody has asked for a try.
func (j *Judge) excuses(e *testhook.Expiring) bool {
	if !j.hook.Idle() { // 1, 2
		return true
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	walks := 0
	for _, k := range e.Keys {
		walks += j.keyLocked(k).walks
	}
	return walks > 0 || e.Asked() // 3, 4
}

// Findings returns the texts of the findings.
func (j *Judge) Findings() (texts []string) {
	j.mu.Lock()
	all := j.mu.findings
	j.mu.Unlock()
	for i := range all {
		texts = append(texts, all[i].text(j))
	}
	return texts
}

// text names the operation and the keys that may be to blame, and says what is known of their checks. If a check or a signal has named
// some of the keys, it is these: another one may be there for CancelForKey, as the name of a connection.
func (f *finding) text(j *Judge) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	var all, named []string
	missed, before := !f.checked, false // every check that reaches its positions came before it waited; there was one
	for _, w := range f.waits {
		all = append(all, w.text)
		if j.keyLocked(w.key).calls.n > 0 {
			named = append(named, w.String())
		}
		before = before || w.calls.n > 0
		missed = missed && (w.calls.n == 0 || w.position <= w.calls.upTo)
	}
	switch said := fmt.Sprintf("%s waited for %s", f.name, strings.Join(named, ", ")); {
	case len(named) == 0 && len(all) == 1:
		return fmt.Sprintf("%s%s, and no check or signal names this key", said, all[0])
	case len(named) == 0:
		return fmt.Sprintf("%s%s, and no check or signal names one of these keys", said, strings.Join(all, ", "))
	case f.checked:
		return said + ": its condition was not true when it was checked"
	case missed && before:
		return said + ": no check came while it waited"
	default:
		return said
	}
}

// String says what was known of the checks of the key when the operation ended.
func (w *wait) String() string {
	text := w.text
	if w.position != math.MinInt64 {
		text = fmt.Sprintf("position %d of %s", w.position, w.text)
	}
	switch c := w.calls; {
	case c.n == 0:
		return text + " (checked later only)"
	case c.upTo == math.MaxInt64:
		return fmt.Sprintf("%s (checked %s)", text, times(c.n))
	default:
		return fmt.Sprintf("%s (checked %s, up to position %d)", text, times(c.n), c.upTo)
	}
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}
