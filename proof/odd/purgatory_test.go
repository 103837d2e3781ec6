package odd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/timer"
)

const long = 10_000 * time.Hour // longer than any cell

var errGone = errors.New("gone")

// op is an operation that waits until met is true, and whose methods a cell may make odd.
type op struct {
	operation.DelayedOperation
	met                   *atomic.Bool
	try, complete, expire func()
	completed             atomic.Int32
}

func act(f func()) {
	if f != nil {
		f()
	}
}

func (o *op) TryComplete() bool { act(o.try); return o.met.Load() }
func (o *op) OnComplete()       { o.completed.Add(1); act(o.complete) }
func (o *op) OnExpiration()     { act(o.expire) }

// purgatories is a World of a purgatory, in which others wait under the key of the odd user, and under another one.
type purgatories struct {
	t         *testing.T
	p         *purgatory.Purgatory[any]
	other     *purgatory.Purgatory[any] // on a manual clock; nobody but those who call back use it
	met       atomic.Bool               // the condition of all operations
	near, far *op                       // they wait under "near", as the odd user does, and under "far"
	more      []*op
	reports   atomic.Int32
	report    func(recovered any, stack []byte) // the panic handler
}

func newPurgatories(t *testing.T) *purgatories {
	w := &purgatories{t: t}
	w.report = func(recovered any, _ []byte) {
		if recovered == any(ErrOdd) {
			w.reports.Add(1)
		}
	}
	clock, err := timer.NewManualTimer()
	require.NoError(t, err)
	w.other, err = purgatory.New[any]("other", purgatory.WithTimer(clock))
	require.NoError(t, err)
	w.open()
	return w
}

// open makes the purgatory, and those who wait in it.
func (w *purgatories) open(options ...purgatory.Option) {
	if w.p != nil {
		require.NoError(w.t, w.p.Close())
	}
	options = append(options, purgatory.WithPanicHandler(func(v any, stack []byte) { w.report(v, stack) }), purgatory.WithWorkers(4))
	p, err := purgatory.New[any]("odd", options...)
	require.NoError(w.t, err)
	w.p = p
	w.near, w.far = w.submit("near"), w.submit("far")
}

func (w *purgatories) submit(keys ...any) *op {
	o := &op{met: &w.met}
	_, err := w.p.TryCompleteElseWatch(o, long, keys...)
	require.NoError(w.t, err)
	return o
}

func (w *purgatories) Back() {
	w.backTo(w.p)
	w.backTo(w.other)
}

func (w *purgatories) backTo(p *purgatory.Purgatory[any]) {
	for _, key := range []any{"near", "far", "new"} {
		o := &op{met: new(atomic.Bool)}
		_, _ = p.TryCompleteElseWatch(o, long, "new")
		err := Methods(p, []string{"Await", "AwaitAt", "Shutdown", "Close"}, func(method string, of reflect.Type) any {
			switch of {
			case reflect.TypeFor[any]():
				if method == "CancelForKey" {
					return "new"
				}
				return key
			case reflect.TypeFor[purgatory.KeyPosition[any]]():
				return purgatory.KeyPosition[any]{Key: key, Position: 5}
			case reflect.TypeFor[operation.Operation]():
				if strings.HasPrefix(method, "Try") {
					return &op{met: new(atomic.Bool)}
				}
				return o
			case reflect.TypeFor[func() bool]():
				return func() bool { return true }
			case reflect.TypeFor[time.Duration]():
				if method == "AdvanceClock" {
					return map[bool]time.Duration{true: 2 * long}[p == w.other] // a SystemTimer would wait
				}
				return long
			case reflect.TypeFor[error]():
				return errGone
			case reflect.TypeFor[int64]():
				return int64(5)
			case reflect.TypeFor[int]():
				return 5
			}
			return nil
		})
		assert.NoError(w.t, err)
	}
}

func (w *purgatories) Close() {
	_ = w.p.Close()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = w.p.Shutdown(ctx)
}

func (w *purgatories) Seen() string {
	synctest.Wait()
	if n := w.reports.Swap(0); n > 0 {
		return "reported"
	}
	return ""
}

func (w *purgatories) Beside() {
	if w.p.Closed() {
		return
	}
	o := w.submit("far")
	w.met.Store(true)
	assert.NotZero(w.t, w.p.CheckAndComplete("far"))
	w.met.Store(false)
	assert.Equal(w.t, operation.Satisfied, o.Outcome(), "a check of another key")
	o = w.submit("far")
	assert.True(w.t, w.p.Extend(o, time.Minute))
	time.Sleep(2 * time.Minute)
	synctest.Wait()
	assert.Equal(w.t, operation.Expired, o.Outcome(), "a timeout")
}

func (w *purgatories) End() {
	synctest.Wait()
	w.met.Store(true)
	w.p.CheckAndComplete("near")
	synctest.Wait()
	if !w.p.Closed() {
		assert.Equal(w.t, operation.Satisfied, w.near.Outcome(), "who waits under the same key")
	}
	require.NoError(w.t, w.p.Close())
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	require.NoError(w.t, w.p.Shutdown(ctx))
	require.NoError(w.t, w.other.Close())
	require.NoError(w.t, w.other.Shutdown(ctx))
	for _, o := range append(w.more, w.near, w.far) {
		assert.EqualValues(w.t, 1, o.completed.Load(), "OnComplete")
	}
	for _, p := range []*purgatory.Purgatory[any]{w.p, w.other} {
		s := p.Stats()
		assert.Zero(w.t, s.Pending)
		assert.Equal(w.t, s.Accepted, s.Satisfied+s.Forced+s.Expired+s.Cancelled+s.Closed)
	}
}

// oddContext is a context some of whose methods are odd.
type oddContext struct {
	context.Context
	done, value func()
}

func (c oddContext) Done() <-chan struct{} { act(c.done); return c.Context.Done() }
func (c oddContext) Err() error            { act(c.value); return c.Context.Err() }
func (c oddContext) Value(key any) any     { act(c.value); return c.Context.Value(key) }

// oddError is a key, or an error, whose text is odd.
type oddError struct{ act func() }

func (k *oddError) String() string { k.act(); return "odd" }
func (k *oddError) Error() string  { k.act(); return "odd" }

// unhashable is a key for which the runtime panics.
type unhashable []int

// oddHandler is a handler of slog, one of whose methods is odd.
type oddHandler struct {
	slog.Handler
	enabled, handle, attrs func()
}

func (h oddHandler) Enabled(context.Context, slog.Level) bool  { act(h.enabled); return true }
func (h oddHandler) Handle(context.Context, slog.Record) error { act(h.handle); return nil }
func (h oddHandler) WithAttrs([]slog.Attr) slog.Handler        { act(h.attrs); return h }
func (h oddHandler) WithGroup(string) slog.Handler             { act(h.attrs); return h }

func text(err error) string {
	switch {
	case err == nil:
		return "nil"
	case errors.Is(err, errGone):
		return "gone"
	case errors.Is(err, purgatory.ErrExpired):
		return "expired"
	case errors.Is(err, purgatory.ErrCancelled):
		return "cancelled"
	case errors.Is(err, purgatory.ErrClosed):
		return "closed"
	}
	return err.Error()
}

// await calls the form of Await that a cell is about.
func (w *purgatories) await(ctx context.Context, of string, ready func() bool, keys ...any) error {
	name, _, _ := strings.Cut(of, "(")
	switch name {
	case "Purgatory.Await":
		return w.p.Await(ctx, long, ready, keys...)
	case "Purgatory.AwaitAt":
		var at []purgatory.KeyPosition[any]
		for _, key := range keys {
			at = append(at, purgatory.KeyPosition[any]{Key: key, Position: 1})
		}
		return w.p.AwaitAt(ctx, long, ready, at...)
	case "AwaitValue":
		v, err := purgatory.AwaitValue(ctx, w.p, long, func() (int, bool) { ok := ready(); return 7, ok }, keys...)
		assert.Equal(w.t, err == nil, v == 7)
		return err
	case "Purgatory.StartWait":
		wait, err := w.p.StartWait(long, ready, keys...)
		if err != nil {
			return err
		}
		defer wait.Stop()
		select {
		case <-wait.Done():
			return wait.Err()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	panic("unknown: " + of)
}

// waits is await on another goroutine, which waits when waits returns.
func (w *purgatories) waits(d *Do, ready func() bool) {
	go func() { _ = w.await(context.Background(), d.Of, ready, "near") }()
	synctest.Wait()
}

// waitsUnder is waits under keys, with a condition that is met with those of the others, and calls first.
func (w *purgatories) waitsUnder(d *Do, first func(), keys []any) {
	go func() { _ = w.await(context.Background(), d.Of, func() bool { first(); return w.met.Load() }, keys...) }()
	synctest.Wait()
}

// odd registers an operation under "near" and "odd", and another one behind it.
func (w *purgatories) odd() *op {
	o := w.submit("near", "odd")
	w.more = append(w.more, o, w.submit("near"))
	return o
}

// ends are the ways in which an operation ends.
var ends = map[string]func(w *purgatories, o *op) any{
	"in a check": func(w *purgatories, _ *op) any {
		w.met.Store(true)
		defer w.met.Store(false)
		return w.p.CheckAndComplete("near")
	},
	"in a check of two keys": func(w *purgatories, _ *op) any {
		w.met.Store(true)
		defer w.met.Store(false)
		return w.p.CheckAndComplete("odd", "near")
	},
	"by force":        func(w *purgatories, o *op) any { return w.p.ForceComplete(o) },
	"by Cancel":       func(w *purgatories, o *op) any { return w.p.Cancel(o, errGone) },
	"by CancelForKey": func(w *purgatories, _ *op) any { return w.p.CancelForKey("odd", errGone) },
	"by Close":        func(w *purgatories, _ *op) any { return w.p.Close() },
	"while it is tried": func(w *purgatories, o *op) any {
		o.try = func() { w.p.ForceComplete(o) }
		return w.p.CheckAndComplete("odd")
	},
}

// onWorkers are those in which a worker ends it.
var onWorkers = map[string]func(w *purgatories, o *op) any{
	"by a signal": func(w *purgatories, o *op) any {
		w.met.Store(true)
		w.p.Signal("odd")
		synctest.Wait()
		w.met.Store(false)
		return o.Outcome()
	},
	"at its timeout": func(w *purgatories, o *op) any {
		w.p.Extend(o, time.Second)
		time.Sleep(time.Minute)
		return o.Outcome()
	},
	"by Shutdown": func(w *purgatories, o *op) any {
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(errGone)
		return errors.Is(w.p.Shutdown(ctx), errGone)
	},
}

var (
	allAwaits = []string{"Purgatory.Await(ready)", "Purgatory.AwaitAt(ready)", "AwaitValue(ready)", "Purgatory.StartWait(ready)"}
	allKeys   = []string{"Purgatory.Await(keys)", "AwaitValue(keys)", "Purgatory.StartWait(keys)", "Purgatory.TryCompleteElseWatch(keys)"}
	allAt     = []string{"Purgatory.AwaitAt(at)", "Purgatory.TryCompleteElseWatchAt(at)"}
)

func TestOddUsersOfAPurgatory(t *testing.T) {
	rows := []Row[*purgatories]{
		{
			Of: allAwaits[:3], On: "at first", Want: atOnce("nil"),
			Do: func(w *purgatories, d *Do) string {
				return text(w.await(context.Background(), d.Of, func() bool { d.Act(); return true }, "near"))
			},
		},
		{
			Of: allAwaits[:3], On: "for the second time",
			Want: with(Closes, "closed", recovered("gone")),
			Do: func(w *purgatories, d *Do) string {
				ctx, cancel := context.WithTimeoutCause(context.Background(), time.Minute, errGone)
				defer cancel()
				n := 0
				return text(w.await(ctx, d.Of, func() bool {
					if n++; n == 2 {
						d.Act()
					}
					return false
				}, "near"))
			},
		},
		{
			Of: allAwaits[3:], On: "at first",
			Want: with(Closes, "closed", recovered("gone")),
			Do: func(w *purgatories, d *Do) string {
				ctx, cancel := context.WithTimeoutCause(context.Background(), time.Minute, errGone)
				defer cancel()
				return text(w.await(ctx, d.Of, func() bool { d.Act(); return false }, "near"))
			},
		},
		{
			Of: allAwaits, On: "in a check", Want: with(Closes, "2", recovered("1")), // it ends its own as closed
			Do: func(w *purgatories, d *Do) string {
				var odd atomic.Bool
				w.waits(d, func() bool {
					if odd.Load() {
						d.Act()
					}
					return false
				})
				odd.Store(true)
				return fmt.Sprint(ends["in a check"](w, nil))
			},
		},
		{
			Of: []string{"Purgatory.Await(ctx)", "Purgatory.AwaitAt(ctx)", "AwaitValue(ctx)"}, On: "in Done", Want: with(Closes, "closed", atOnce("nil")),
			Do: func(w *purgatories, d *Do) string {
				return text(w.await(oddContext{Context: context.Background(), done: d.Act}, d.Of, func() bool { return true }, "near"))
			},
		},
		{
			Of: []string{"Purgatory.Await(ctx)", "Purgatory.AwaitAt(ctx)", "AwaitValue(ctx)"}, On: "in Value, when it has ended",
			Want: with(Closes, "closed", atOnce("gone")),
			Do: func(w *purgatories, d *Do) string {
				ctx, cancel := context.WithTimeoutCause(context.Background(), time.Minute, errGone)
				defer cancel()
				return text(w.await(oddContext{Context: ctx, value: d.Act}, d.Of, func() bool { return false }, "near"))
			},
		},
		{
			Of: []string{"Purgatory.Shutdown(ctx)"}, On: "in Done",
			Want: with(Closes, "nil", atOnce("gone")),
			Do: func(w *purgatories, d *Do) string {
				ctx, cancel := context.WithTimeoutCause(context.Background(), time.Minute, errGone)
				defer cancel()
				return text(w.p.Shutdown(oddContext{Context: ctx, done: d.Act}))
			},
		},
		{
			Of: []string{"Purgatory.Shutdown(ctx)"}, On: "in Value, when it has ended",
			Want: atOnce("gone"),
			Do: func(w *purgatories, d *Do) string {
				ctx, cancel := context.WithTimeoutCause(context.Background(), time.Minute, errGone)
				defer cancel()
				return text(w.p.Shutdown(oddContext{Context: ctx, value: d.Act}))
			},
		},
		{
			Of: []string{"Operation.TryComplete"}, On: "at first", Want: with(Closes, "false closed", recovered("false nil")),
			Do: func(w *purgatories, d *Do) string {
				completed, err := w.p.TryCompleteElseWatch(&op{met: &w.met, try: d.Act}, long, "near")
				return fmt.Sprint(completed, " ", text(err))
			},
		},
		{
			Of: []string{"Operation.TryComplete"}, On: "for the second time", Want: with(Closes, "true nil", recovered("false nil")), // it ends as closed
			Do: func(w *purgatories, d *Do) string {
				o := &op{met: &w.met}
				n := 0
				o.try = func() {
					if n++; n == 2 {
						d.Act()
					}
				}
				completed, err := w.p.TryCompleteElseWatch(o, long, "near", "more")
				return fmt.Sprint(completed, " ", text(err))
			},
		},
		{
			Of: []string{"Operation.TryComplete"}, On: "in a check", Want: with(Closes, "2", recovered("3")),
			Do: func(w *purgatories, d *Do) string {
				o, no := w.odd(), new(atomic.Bool)
				o.try = d.Act
				if d.User != CallsBack {
					w.more = append(w.more, w.submit("near"))
					o.met = no // until it behaves
					defer func() { w.more, o.met = append(w.more, o), &w.met }()
				}
				return fmt.Sprint(ends["in a check"](w, o))
			},
		},
		{
			Of: []string{"Operation.TryComplete"}, On: "by a signal", Want: elsewhere("pending"),
			Do: func(w *purgatories, d *Do) string {
				o := w.odd()
				o.try = d.Act
				w.p.Signal("odd")
				synctest.Wait()
				return fmt.Sprint(o.Outcome())
			},
		},
		{
			Of: []string{"Operation.OnComplete"}, On: "at registration", Want: recovered("true nil"),
			Do: func(w *purgatories, d *Do) string {
				yes := &atomic.Bool{}
				yes.Store(true)
				completed, err := w.p.TryCompleteElseWatch(&op{met: yes, complete: d.Act}, long, "near")
				return fmt.Sprint(completed, " ", text(err))
			},
		},
		{
			Of: []string{"Operation.OnExpiration"}, On: "at its timeout", Want: elsewhere("expired"),
			Do: func(w *purgatories, d *Do) string {
				o := w.odd()
				o.expire = d.Act
				return fmt.Sprint(onWorkers["at its timeout"](w, o))
			},
		},
		{
			Of: []string{"Purgatory.Keys: body"}, Want: atOnce("nil"),
			Do: func(w *purgatories, d *Do) string {
				for range w.p.Keys() {
					d.Act()
				}
				return "nil"
			},
		},
		{
			Of: allKeys, On: "in its first try", Want: ofSlices("1"),
			Do: func(w *purgatories, d *Do) string {
				keys := []any{"near", "odd", "wild", "wild"}[:2]
				first := func() { Slice(d, keys, "wild") }
				if d.Of == "Purgatory.TryCompleteElseWatch(keys)" {
					o := &op{met: new(atomic.Bool), try: first}
					_, _ = w.p.TryCompleteElseWatch(o, long, keys...)
					o.try, o.met = nil, &w.met
				} else {
					w.waitsUnder(d, first, keys)
				}
				d.Spoil()
				w.met.Store(true)
				defer w.met.Store(false)
				return fmt.Sprint(w.p.CheckAndComplete("odd"))
			},
		},
		{
			Of: allAt, On: "in its first try", Want: ofSlices("1"),
			Do: func(w *purgatories, d *Do) string {
				at := []purgatory.KeyPosition[any]{{Key: "near", Position: 9}, {Key: "odd", Position: 3}, {}, {}}[:2]
				first := func() { Slice(d, at, purgatory.KeyPosition[any]{Key: "wild", Position: 7}) }
				if d.Of == allAt[1] {
					o := &op{met: new(atomic.Bool), try: first}
					_, _ = w.p.TryCompleteElseWatchAt(o, long, at...)
					o.try, o.met = nil, &w.met
				} else {
					go func() {
						_ = w.p.AwaitAt(context.Background(), long, func() bool { first(); return w.met.Load() }, at...)
					}()
					synctest.Wait()
				}
				d.Spoil()
				w.met.Store(true)
				defer w.met.Store(false)
				return fmt.Sprint(w.p.CheckAndCompleteUpTo("odd", 3))
			},
		},
		{
			Of: []string{"Purgatory.CheckAndComplete(keys)"}, On: "in a callback", Want: ofSlices("3"),
			Do: func(w *purgatories, d *Do) string {
				keys := []any{"odd", "near", "wild", "wild"}[:2]
				o := w.odd()
				o.complete = func() { Slice(d, keys, "wild") }
				w.met.Store(true)
				defer w.met.Store(false)
				return fmt.Sprint(w.p.CheckAndComplete(keys...))
			},
		},
		{
			Of: []string{"Purgatory.Signal(keys)"}, On: "afterwards", Want: ofSlices("satisfied, satisfied"),
			Do: func(w *purgatories, d *Do) string {
				keys := []any{"odd", "near", "wild", "wild"}[:2]
				o := w.odd()
				w.met.Store(true)
				defer w.met.Store(false)
				w.p.Signal(keys...)
				Slice(d, keys, "wild")
				d.Spoil()
				synctest.Wait()
				return fmt.Sprint(o.Outcome(), ", ", w.near.Outcome())
			},
		},
		{
			Of: []string{"K"}, On: "in String", // fmt recovers the panic
			Want: with(Panics, "nil", atOnce("nil")),
			Do: func(w *purgatories, d *Do) string {
				key := &oddError{d.Act}
				w.more = append(w.more, w.submit(key), w.submit(key))
				w.p.Inspect(10)
				return "nil"
			},
		},
		{
			Of: []string{"Purgatory.Cancel(cause)", "Purgatory.CancelForKey(cause)"}, Silent: true, Want: silently("true"),
			Do: func(w *purgatories, d *Do) string {
				cause := &oddError{d.Act}
				o := w.odd()
				if d.Of == "Purgatory.Cancel(cause)" {
					w.p.Cancel(o, cause)
				} else {
					w.p.CancelForKey("odd", cause)
				}
				return fmt.Sprint(same(o.Cause(), cause))
			},
		},
		{
			Of: []string{"Must(err)"}, Silent: true, Want: silently("panics with it"),
			Do: func(w *purgatories, d *Do) (how string) {
				cause := &oddError{d.Act}
				defer func() {
					if recover() == cause {
						how = "panics with it"
					}
				}()
				purgatory.Must[any](nil, cause)
				return "returns"
			},
		},
		{Of: []string{"Timer.Entries", "Timer.Now"}, Not: "New refuses a timer that is not of package timer"},
	}
	for on, end := range ends {
		want := map[string]string{"in a check": "3", "in a check of two keys": "3", "by CancelForKey": "1", "by Close": "<nil>", "while it is tried": "1"}[on]
		if want == "" {
			want = "true"
		}
		wants := recovered(want)
		if on == "in a check of two keys" {
			wants[CallsBack], wants[Closes] = "1", "1" // what it calls ends the others
		}
		rows = append(rows, Row[*purgatories]{
			Of: []string{"Operation.OnComplete"}, On: on, Want: wants,
			Do: func(w *purgatories, d *Do) string {
				o := w.odd()
				o.complete = d.Act
				return fmt.Sprint(end(w, o))
			},
		})
	}
	for on, end := range onWorkers {
		want := map[string]string{"by a signal": "satisfied", "at its timeout": "expired", "by Shutdown": "true"}[on]
		rows = append(rows, Row[*purgatories]{
			Of: []string{"Operation.OnComplete"}, On: on, Want: elsewhere(want),
			Do: func(w *purgatories, d *Do) string {
				o := w.odd()
				o.complete = d.Act
				return fmt.Sprint(end(w, o))
			},
		})
	}
	rows = append(rows, Row[*purgatories]{
		Of: []string{"WithPanicHandler(h)"}, Want: and(silently("2"), ofSlices("2")),
		Do: func(w *purgatories, d *Do) string {
			w.report = func(_ any, stack []byte) { Slice(d, stack, 0); d.Act() }
			o := w.odd()
			panicking := true
			o.try = func() {
				if panicking {
					panicking = false
					panic("of the operation")
				}
			}
			return fmt.Sprint(ends["in a check"](w, o))
		},
	})
	for on, handler := range map[string]func(h *oddHandler, act func()){
		"in Enabled": func(h *oddHandler, act func()) { h.enabled = act },
		"in Handle":  func(h *oddHandler, act func()) { h.handle = act },
	} {
		rows = append(rows, Row[*purgatories]{
			Of: []string{"WithLogger(l)"}, On: on, Want: silently("expired"), // slog's default logger has the panic
			Do: func(w *purgatories, d *Do) string {
				var h oddHandler
				handler(&h, d.Act)
				w.open(purgatory.WithLogger(slog.New(h)))
				return fmt.Sprint(onWorkers["at its timeout"](w, w.odd()))
			},
		})
	}
	for on, call := range map[string]func(p *purgatory.Purgatory[any], key any){
		"TryCompleteElseWatch": func(p *purgatory.Purgatory[any], key any) {
			_, _ = p.TryCompleteElseWatch(&op{met: new(atomic.Bool)}, long, "near", key)
		},
		"Await": func(p *purgatory.Purgatory[any], key any) {
			_ = p.Await(context.Background(), 0, func() bool { return true }, key)
		},
		"CheckAndComplete":     func(p *purgatory.Purgatory[any], key any) { p.CheckAndComplete("near", key) },
		"CheckAndCompleteUpTo": func(p *purgatory.Purgatory[any], key any) { p.CheckAndCompleteUpTo(key, 1) },
		"Signal":               func(p *purgatory.Purgatory[any], key any) { p.Signal("near", key) },
		"SignalUpTo":           func(p *purgatory.Purgatory[any], key any) { p.SignalUpTo(key, 1) },
		"CancelForKey":         func(p *purgatory.Purgatory[any], key any) { p.CancelForKey(key, nil) },
		"Waiting":              func(p *purgatory.Purgatory[any], key any) { p.Waiting(key) },
	} {
		rows = append(rows, Row[*purgatories]{ // before anything has changed
			Of: []string{"K"}, On: "when it is hashed, in " + on, Want: map[User]string{Panics: "panics"},
			Do: func(w *purgatories, d *Do) string {
				tried := false
				w.odd().try = func() { tried = true }
				before := w.p.Stats()
				defer func() {
					synctest.Wait()
					if recover() != nil && !tried && w.p.Stats() == before {
						d.Act()
					}
				}()
				call(w.p, unhashable{1})
				return "returns"
			},
		})
	}
	Check(t, "../../purgatory", newPurgatories, rows)
}

// same reports whether a is the very error b, not one that wraps it.
func same(a, b error) bool { return any(a) == any(b) }
