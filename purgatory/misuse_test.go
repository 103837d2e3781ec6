package purgatory_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/timer"
)

// pointed embeds by pointer, and has none.
type pointed struct{ *operation.DelayedOperation }

func (pointed) TryComplete() bool { return false }
func (pointed) OnComplete()       {}
func (pointed) OnExpiration()     {}

// TestMisuseSaysWhatToDo is a page of what newcomers write, and of what they read then.
func TestMisuseSaysWhatToDo(t *testing.T) {
	made := func(_ *stringPurgatory, err error) error { return err }
	wait := func(_ *purgatory.Wait[string], err error) error { return err }
	watch := func(_ bool, err error) error { return err }
	value := func(_ int, err error) error { return err }
	never := func() bool { return false }
	one := func() (int, bool) { return 0, false }
	var noContext context.Context
	ctx := t.Context()

	p := open[string](t, purgatory.WithMaxPending(2))
	other := open[string](t)
	closed := open[string](t)
	require.NoError(t, closed.Close())
	used := &op{}
	submit(t, p, used, hour, "a")
	pending, err := p.StartWait(hour, never, "a")
	require.NoError(t, err)
	defer pending.Stop()

	const refused = `purgatory "test": `
	for _, misuse := range []struct {
		written func() error
		kind    error
		read    string
	}{
		// New.
		{func() error { return made(purgatory.New[string]("")) }, purgatory.ErrInvalidOption, `purgatory "": invalid option: the name is empty: errors, logs and metrics need one`},
		{func() error { return made(purgatory.New[string]("test", purgatory.WithTick(1))) }, purgatory.ErrInvalidOption, refused + "invalid option: tick is 1ns, must be at least 1µs; a number without a unit counts nanoseconds"},
		{func() error { return made(purgatory.New[string]("test", nil)) }, purgatory.ErrInvalidOption, refused + "invalid option: a nil Option"},
		{func() error { return made(purgatory.New[string]("test", purgatory.WithReapInterval(-1))) }, purgatory.ErrInvalidOption, refused + "invalid option: reap interval is -1ns, must be positive"},

		// A context, a function or an operation that is nil.
		{func() error { return p.Await(noContext, hour, never, "a") }, nil, "purgatory: Await was called with a nil context: use context.Background()"},
		{func() error { return value(purgatory.AwaitValue(noContext, p, hour, one, "a")) }, nil, "purgatory: Await was called with a nil context: use context.Background()"},
		{func() error { return p.Shutdown(noContext) }, nil, "purgatory: Shutdown was called with a nil context: use context.Background()"},
		{func() error { return p.Await(ctx, hour, nil, "a") }, purgatory.ErrNilOperation, refused + "nil operation: the function to wait for is nil"},
		{func() error { return value(purgatory.AwaitValue[int](ctx, p, hour, nil, "a")) }, purgatory.ErrNilOperation, refused + "nil operation: the function to wait for is nil"},
		{func() error { return wait(p.StartWait(hour, nil, "a")) }, purgatory.ErrNilOperation, refused + "nil operation: the function to wait for is nil"},
		{func() error { return watch(p.TryCompleteElseWatch(nil, hour, "a")) }, purgatory.ErrNilOperation, refused + "nil operation: <nil> is nil, or embeds a nil pointer: embed operation.DelayedOperation by value"},
		{func() error { return watch(p.TryCompleteElseWatch((*op)(nil), hour, "a")) }, purgatory.ErrNilOperation, refused + "nil operation: *purgatory_test.op is nil, or embeds a nil pointer: embed operation.DelayedOperation by value"},
		{func() error { return watch(p.TryCompleteElseWatch(pointed{}, hour, "a")) }, purgatory.ErrNilOperation, refused + "nil operation: purgatory_test.pointed is nil, or embeds a nil pointer: embed operation.DelayedOperation by value"},

		// Keys.
		{func() error { return watch(p.TryCompleteElseWatch(&op{}, hour)) }, purgatory.ErrNoKeys, refused + "no keys: an operation needs a key, under which a check finds it"},

		// An operation, or a wait, at the wrong time.
		{func() error { return watch(p.TryCompleteElseWatch(used, hour, "a")) }, purgatory.ErrUsed, refused + "operation used twice: *purgatory_test.op was submitted before"},
		{func() error { return watch(other.TryCompleteElseWatch(used, hour, "a")) }, purgatory.ErrUsed, refused + "operation used twice: *purgatory_test.op was submitted before"},
		{func() error { return watch(p.TryCompleteElseWatch(&op{}, hour, "a")) }, purgatory.ErrFull, refused + "full: 2 operations are pending"},
		{func() error { return closed.Await(ctx, hour, never, "a") }, purgatory.ErrClosed, refused + "closed: Await"},
		{func() error { return watch(closed.TryCompleteElseWatch(&op{}, hour, "a")) }, purgatory.ErrClosed, refused + "closed: *purgatory_test.op"},
		{pending.Err, purgatory.ErrPending, refused + "pending: the wait has not ended"},
	} {
		err := said(misuse.written)
		assert.EqualError(t, err, misuse.read)
		if misuse.kind != nil {
			assert.ErrorIs(t, err, misuse.kind, misuse.read)
		}
	}
	assert.EqualValues(t, 2, p.Stats().Pending, "nothing has begun to wait")
}

// said returns what misuse returns, or panics with.
func said(misuse func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%v", v)
		}
	}()
	return misuse()
}

// TestTheCompilerSaysWhatIsMissing compiles what newcomers write.
func TestTheCompilerSaysWhatIsMissing(t *testing.T) {
	const program = `package main

import (
	"time"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

type fetch struct{ %s }

func (*fetch) TryComplete() bool { return true }
func (*fetch) OnComplete()       {}
func (*fetch) OnExpiration()     {}

func main() {
	p, _ := purgatory.New[string]("fetches")
	p.TryCompleteElseWatch(%s, time.Second, "orders-0")
}

var _ operation.Outcome
`
	for _, c := range []struct{ embedded, submitted, says string }{
		{"n int", "&fetch{}", "*fetch does not implement operation.Operation (missing method embedOperationDelayedOperation)"},
		{"operation.DelayedOperation", "fetch{}", "fetch does not implement operation.Operation (method OnComplete has pointer receiver)"},
		{"operation.DelayedOperation", "&fetch{}", ""},
	} {
		file := filepath.Join(t.TempDir(), "main.go")
		require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, program, c.embedded, c.submitted), 0o600))
		out, err := exec.CommandContext(t.Context(), "go", "build", "-o", os.DevNull, file).CombinedOutput()
		if c.says == "" {
			require.NoError(t, err, "%s", out)
			continue
		}
		require.Error(t, err)
		assert.Contains(t, string(out), c.says)
	}
}

func TestOptionsOutOfRangeAreErrors(t *testing.T) {
	clock, err := timer.NewManualTimer()
	require.NoError(t, err)
	tests := map[string]struct {
		opts []purgatory.Option
		says string
	}{
		"nil option":            {[]purgatory.Option{nil}, "nil Option"},
		"tick":                  {[]purgatory.Option{purgatory.WithTick(0)}, "0s"},
		"tick without a unit":   {[]purgatory.Option{purgatory.WithTick(30)}, "tick is 30ns, must be at least 1µs; a number without a unit counts nanoseconds"},
		"purge interval":        {[]purgatory.Option{purgatory.WithPurgeInterval(-1)}, "-1"},
		"reap interval":         {[]purgatory.Option{purgatory.WithReapInterval(0)}, "0s"},
		"workers":               {[]purgatory.Option{purgatory.WithWorkers(0)}, "number of workers is 0, must be at least 1"},
		"maximum":               {[]purgatory.Option{purgatory.WithMaxPending(-3)}, "-3"},
		"maximum of a key, 0":   {[]purgatory.Option{purgatory.WithMaxPendingPerKey(0)}, "maximum of pending operations per key is 0, must be at least 1"},
		"maximum of a key, < 0": {[]purgatory.Option{purgatory.WithMaxPendingPerKey(-3)}, "maximum of pending operations per key is -3, must be at least 1"},
		"a place, no maximum":   {[]purgatory.Option{purgatory.WithPlaceKept()}, "maximum of pending operations is none, must be set for WithPlaceKept"},
		"panic handler":         {[]purgatory.Option{purgatory.WithPanicHandler(nil)}, "panic handler"},
		"logger":                {[]purgatory.Option{purgatory.WithLogger(nil)}, "logger"},
		"timer with tick":       {[]purgatory.Option{purgatory.WithTimer(clock), purgatory.WithTick(time.Second)}, "injected"},
		"no timer":              {[]purgatory.Option{purgatory.WithTimer(nil)}, "nil"},
		"timer that is nil":     {[]purgatory.Option{purgatory.WithTimer((*timer.SystemTimer)(nil))}, "*timer.SystemTimer"},
		"timer in a wrapper":    {[]purgatory.Option{purgatory.WithTimer(struct{ timer.Timer }{clock})}, "struct { timer.Timer }"},
		"hand-held that is nil": {[]purgatory.Option{purgatory.WithTimer((*timer.ManualTimer)(nil))}, "*timer.ManualTimer"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			p, err := purgatory.New[string]("test", test.opts...)
			assert.Nil(t, p)
			require.ErrorIs(t, err, purgatory.ErrInvalidOption)
			assert.ErrorContains(t, err, test.says)
			assert.ErrorContains(t, err, `purgatory "test": invalid option: `)
		})
	}
}

func TestExtremeOptionValuesWork(t *testing.T) {
	for name, opts := range map[string][]purgatory.Option{
		"smallest": {
			purgatory.WithTick(time.Microsecond), purgatory.WithWatcherShards(1),
			purgatory.WithPurgeInterval(0), purgatory.WithReapInterval(time.Millisecond), purgatory.WithWorkers(1), purgatory.WithMaxPending(1),
		},
		"large": {
			purgatory.WithTick(hour), purgatory.WithWatcherShards(1 << 16),
			purgatory.WithPurgeInterval(math.MaxInt), purgatory.WithReapInterval(hour), purgatory.WithWorkers(math.MaxInt), purgatory.WithMaxPending(math.MaxInt),
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := open[string](t, opts...)
			var met atomic.Bool
			o := until(&met)
			submit(t, p, o, hour, "a", "b")
			met.Store(true)
			p.Signal("b")
			eventually(t, func() bool { return o.completed.Load() == 1 }, "the check of a signalled key")
			ended(t, o, operation.Satisfied)
			expiring := &op{}
			submit(t, p, expiring, 0, "a")
			eventually(t, func() bool { return expiring.expired.Load() == 1 }, "expiry at once")
		})
	}
}

func TestTimeoutsThatAreExpectedAreSaidToBe(t *testing.T) {
	assert.False(t, open[string](t).Stats().TimeoutsExpected)
	assert.True(t, open[string](t, purgatory.WithTimeoutsExpected()).Stats().TimeoutsExpected)
}

// The documentation shows these as numbers. They are those of the packages that use them.
func TestConstantsHaveTheValuesThatAreUsed(t *testing.T) {
	assert.Equal(t, purgatory.AnyPosition, int64(math.MinInt64))
	assert.Equal(t, purgatory.EveryPosition, int64(math.MaxInt64))
}
