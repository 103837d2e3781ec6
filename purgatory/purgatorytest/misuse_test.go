package purgatorytest

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// produce is an operation whose TryComplete and callbacks a test supplies.
type produce struct {
	operation.DelayedOperation
	try, complete, expire func()
}

func (o *produce) TryComplete() bool { call(o.try); return false }
func (o *produce) OnComplete()       { call(o.complete) }
func (o *produce) OnExpiration()     { call(o.expire) }

func call(f func()) {
	if f != nil {
		f()
	}
}

// A TryComplete that makes a check fails its test, each place that does so once.
func TestACheckInsideATryCompleteFailsTheTest(t *testing.T) {
	for name, c := range map[string]struct {
		check func(p *Purgatory[string])
		want  string
	}{
		"check": {func(p *Purgatory[string]) { p.CheckAndComplete("audit") }, "CheckAndComplete of audit at misuse_test.go"},
		"two":   {func(p *Purgatory[string]) { p.CheckAndComplete("audit", "audit") }, "CheckAndComplete of audit at misuse_test.go"},
		"up to": {func(p *Purgatory[string]) { p.CheckAndCompleteUpTo("audit", 3) }, "CheckAndComplete of audit at misuse_test.go"},
	} {
		t.Run(name, func(t *testing.T) {
			said := record(func(rt testing.TB) {
				p := New[string](rt)
				o := &produce{try: func() { c.check(p) }}
				wait(t, p, o, "orders")
				p.CheckAndComplete("orders")
				p.Cancel(o, nil)
			})
			require.Len(t, said, 1)
			assert.Contains(t, said[0], "purgatorytest.(*produce).TryComplete calls "+c.want)
			assert.Contains(t, said[0], "that runs the methods of other operations inside this one; use Signal there")
		})
	}

	said := record(func(rt testing.TB) {
		p := New[string](rt)
		ready := func() bool { p.CheckAndComplete("audit"); return false }
		_, err := p.StartWait(time.Minute, ready, "orders")
		assert.NoError(t, err)
		p.JustAfter(time.Minute)
	})
	require.Len(t, said, 1)
	assert.Contains(t, said[0], "the function of an Await, purgatorytest.TestACheckInsideATryCompleteFailsTheTest.")
	assert.Contains(t, said[0], ", calls CheckAndComplete of audit at misuse_test.go")
}

// What is meant to be called from an operation's methods is.
func TestWhatMethodsMayCallPasses(t *testing.T) {
	assert.Empty(t, record(func(rt testing.TB) {
		p := New[string](rt)
		signals := &produce{try: func() { p.Signal("audit"); p.SignalUpTo("audit", 3) }}
		checks := func() {
			p.CheckAndComplete("audit")
			_, err := p.StartWait(time.Minute, func() bool { return true }, "audit")
			assert.NoError(t, err)
			assert.ErrorIs(t, p.Await(context.Background(), 0, p.ready, "audit"), purgatory.ErrExpired)
		}
		wait(t, p, signals, "orders")
		wait(t, p, &produce{complete: checks, expire: checks}, "orders")
		p.CheckAndComplete("orders")
		p.JustAfter(time.Minute)
	}))
}

// An Await inside a method says so in place of blocking the goroutine that would end it.
func TestAnAwaitInsideAMethodFailsTheTest(t *testing.T) {
	for name, of := range map[string]func(o *produce) *func(){
		"TryComplete":  func(o *produce) *func() { return &o.try },
		"OnComplete":   func(o *produce) *func() { return &o.complete },
		"OnExpiration": func(o *produce) *func() { return &o.expire },
	} {
		t.Run(name, func(t *testing.T) {
			told := make(chan any, 9)
			said := record(func(rt testing.TB) {
				p := New[string](rt, purgatory.WithPanicHandler(func(v any, _ []byte) { told <- v }))
				o := &produce{}
				wait(t, p, o, "orders")
				*of(o) = func() { _ = p.Await(context.Background(), time.Hour, p.ready, "audit") }
				p.JustAfter(time.Minute)
			})
			require.Len(t, said, 1)
			assert.Contains(t, said[0], "purgatorytest.(*produce)."+name+" calls Await at misuse_test.go")
			assert.Contains(t, <-told, "calls Await at misuse_test.go")
		})
	}
}

// inChild is set in the process that TestALockThatAConditionNeedsEndsTheProgram starts.
const inChild = "PURGATORYTEST_CHILD"

// stuckUnderLock checks the key of an operation, or moves the clock, while it holds the lock that the
// condition takes.
func stuckUnderLock(t *testing.T, how string) {
	stuckAfter, sure = 50*time.Millisecond, 10*time.Millisecond
	p := New[string](t)
	var lock sync.RWMutex
	take := lock.Lock
	if how == "read" {
		take = lock.RLock
		p.ConditionsTake(&lock)
	}
	o := &produce{try: func() {
		take()
		if how == "read" {
			lock.RUnlock()
		} else {
			lock.Unlock()
		}
	}}
	wait(t, p, o, "orders")
	lock.RLock()
	switch how {
	case "check", "read":
		p.CheckAndComplete("orders")
	case "clock":
		p.JustAfter(time.Minute)
	case "worker":
		p.Signal("orders")
		p.WaitPending(0)
	}
}

// A test that blocks itself for ever ends with the reason, and the stack that shows it.
func TestALockThatAConditionNeedsEndsTheProgram(t *testing.T) {
	if how := os.Getenv(inChild); how != "" {
		stuckUnderLock(t, how)
		return
	}
	for _, how := range []string{"check", "read", "clock", "worker"} {
		t.Run(how, func(t *testing.T) {
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			c := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestALockThatAConditionNeedsEndsTheProgram$")
			c.Env = append(os.Environ(), inChild+"="+how)
			out, err := c.CombinedOutput()
			if errors.Is(err, syscall.ENOEXEC) {
				t.Skip("an emulator runs the test: it cannot start itself")
			}
			require.Contains(t, string(out), "panic: purgatorytest: a TryComplete waits for a lock, and nothing has moved for 60ms")
			for _, want := range map[string][]string{
				"check":  {"(*produce).TryComplete", "CheckAndComplete", "stuckUnderLock"},
				"read":   {"(*produce).TryComplete", "CheckAndComplete", "stuckUnderLock"},
				"clock":  {"(*produce).TryComplete"},
				"worker": {"(*produce).TryComplete"},
			}[how] {
				assert.Contains(t, string(out), want)
			}
		})
	}
}

// A lock that conditions take, and that others hold for a while, holds up the check for as long.
func TestACheckBesideAReaderGoesOn(t *testing.T) {
	p := New[string](t)
	var lock sync.RWMutex
	p.ConditionsTake(&lock)
	o := &produce{try: func() { lock.RLock(); defer lock.RUnlock() }}
	wait(t, p, o, "orders")
	p.CheckAndComplete("orders") // nobody holds it
	lock.RLock()
	var all sync.WaitGroup
	all.Go(func() { p.CheckAndComplete("orders") })
	for lock.TryRLock() { // until a writer waits
		lock.RUnlock()
		runtime.Gosched()
	}
	lock.RUnlock()
	all.Wait()
	p.Cancel(o, nil)
}

// A callback that blocks is not stuck, nor is a goroutine that waits for a lock elsewhere.
func TestWhatIsNotStuckGoesOn(t *testing.T) {
	p := New[string](t)
	inside, goOn := make(chan struct{}), make(chan struct{})
	wait(t, p, &produce{complete: func() { close(inside); <-goOn }}, "orders")
	var lock sync.Mutex
	lock.Lock()
	var all sync.WaitGroup
	all.Go(func() { p.CancelForKey("orders", nil) })
	all.Go(func() { lock.Lock(); defer lock.Unlock() })
	within(t, "the callback", inside)
	for !waitsForLock.Match(stackOf("TestWhatIsNotStuckGoesOn.func3")) {
		runtime.Gosched()
	}
	_, underWay := p.watch.still()
	assert.True(t, underWay)
	p.watch.look()
	assert.Empty(t, locked())
	lock.Unlock()
	close(goOn)
	all.Wait()
}

// stackOf returns the stack of the goroutine that runs a function.
func stackOf(function string) []byte {
	all := make([]byte, 1<<20)
	for stack := range bytes.SplitSeq(all[:runtime.Stack(all, true)], []byte("\n\n")) {
		if bytes.Contains(stack, []byte(function)) {
			return stack
		}
	}
	return nil
}
