package odd

import (
	"context"
	"fmt"
	"reflect"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/future"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/watermark"
)

// watermarks is a World of a watermark, for which another one waits, too.
type watermarks struct {
	t      *testing.T
	p      *purgatory.Purgatory[string]
	w      *watermark.Watermark[string]
	near   *watermark.Wait[string]
	closed bool
}

func newWatermarks(t *testing.T) *watermarks {
	p, err := purgatory.New[string]("odd")
	require.NoError(t, err)
	w := &watermarks{t: t, p: p, w: watermark.New(p, "w", 0)}
	w.near, err = w.w.StartWait(5)
	require.NoError(t, err)
	return w
}

func (w *watermarks) Back() {
	assert.NoError(w.t, Methods(w.w, []string{"Await", "Close"}, func(_ string, of reflect.Type) any {
		switch of {
		case reflect.TypeFor[int64]():
			return int64(1)
		case reflect.TypeFor[time.Duration]():
			return time.Minute
		}
		return nil
	}))
}

func (w *watermarks) Close()       { w.w.Close(errGone); w.closed = true }
func (w *watermarks) Seen() string { return "" }

func (w *watermarks) Beside() {
	if !w.closed {
		w.w.Advance(5)
		assert.NoError(w.t, w.near.Err(), "who waits for the same position")
	}
}

func (w *watermarks) End() {
	synctest.Wait()
	w.w.Close(errGone)
	time.Sleep(time.Minute)
	assert.Zero(w.t, w.w.Waiting())
	assert.NoError(w.t, w.p.Close())
	assert.NoError(w.t, w.p.Shutdown(context.Background()))
}

func TestOddUsersOfAWatermark(t *testing.T) {
	Check(t, "../../watermark", newWatermarks, []Row[*watermarks]{
		{Of: []string{"K"}, Not: "package purgatory does what is to be done with keys, and has the cells"},
		{
			Of: []string{"Watermark.Await(ctx)"}, On: "in Done", Want: atOnce("gone"),
			Do: func(w *watermarks, d *Do) string {
				ctx, cancel := context.WithTimeoutCause(context.Background(), time.Minute, errGone)
				defer cancel()
				return text(w.w.Await(oddContext{Context: ctx, done: d.Act}, long, 5))
			},
		},
		{
			Of: []string{"Watermark.Await(ctx)"}, On: "in Value, when it has ended", Want: atOnce("gone"),
			Do: func(w *watermarks, d *Do) string {
				ctx, cancel := context.WithTimeoutCause(context.Background(), time.Minute, errGone)
				defer cancel()
				return text(w.w.Await(oddContext{Context: ctx, value: d.Act}, long, 5))
			},
		},
		{
			Of: []string{"Watermark.Close(cause)"}, Silent: true, Want: silently("true, true"),
			Do: func(w *watermarks, d *Do) string {
				cause := &oddError{d.Act}
				w.closed = true
				w.w.Close(cause)
				return fmt.Sprint(same(w.near.Err(), cause), ", ", same(w.w.Await(context.Background(), long, 9), cause))
			},
		},
	})
}

// futures is a World of a future, and of another one in the same purgatory.
type futures struct {
	t       *testing.T
	p       *purgatory.Purgatory[string]
	near    *future.Future[int]
	made    *future.Future[int]
	reports atomic.Int32
}

func newFutures(t *testing.T) *futures {
	w := &futures{t: t}
	var err error
	w.p, err = purgatory.New[string]("odd", purgatory.WithPanicHandler(func(any, []byte) { w.reports.Add(1) }))
	require.NoError(t, err)
	w.near, err = future.Gather[int](w.p, long, future.Any(1), "near", "all")
	require.NoError(t, err)
	return w
}

// gather makes a future that wants two of three results, and has one.
func (w *futures) gather(keys ...string) *future.Future[int] {
	return w.gatherIn(long, nil, keys...)
}

func (w *futures) gatherIn(timeout time.Duration, ended func([]future.Result[int], error), keys ...string) *future.Future[int] {
	f, err := future.GatherFunc(w.p, timeout, future.Quorum(2, 3), ended, keys...)
	require.NoError(w.t, err)
	w.made = f
	assert.True(w.t, f.Deliver(0, 1, nil))
	return f
}

func (w *futures) Back() {
	if w.made == nil {
		return
	}
	assert.NoError(w.t, Methods(w.made, []string{"Wait"}, func(method string, of reflect.Type) any {
		switch of {
		case reflect.TypeFor[int]():
			return 2
		case reflect.TypeFor[error]():
			return errGone
		}
		return nil
	}))
}

func (w *futures) Close() { _ = w.p.Close() }

func (w *futures) Seen() string {
	synctest.Wait()
	if w.reports.Swap(0) > 0 {
		return "reported"
	}
	return ""
}

func (w *futures) Beside() {
	if !w.p.Closed() {
		assert.True(w.t, w.near.Deliver(0, 7, nil))
		results, err := w.near.Wait(w.t.Context())
		assert.NoError(w.t, err)
		assert.Len(w.t, results, 1)
	}
}

func (w *futures) End() {
	synctest.Wait()
	assert.NoError(w.t, w.p.Close())
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	assert.NoError(w.t, w.p.Shutdown(ctx))
}

func TestOddUsersOfAFuture(t *testing.T) {
	rows := []Row[*futures]{
		{Of: []string{"K"}, Not: "package purgatory does what is to be done with keys, and has the cells"},
		{Of: []string{"V"}, Not: "a future keeps values, and type parameters have no methods"},
		{
			Of: []string{"Future.Wait(ctx)"}, On: "in Done", Want: with(Closes, "closed", atOnce("gone")),
			Do: func(w *futures, d *Do) string {
				ctx, cancel := context.WithTimeoutCause(context.Background(), time.Minute, errGone)
				defer cancel()
				_, err := w.gather("f").Wait(oddContext{Context: ctx, done: d.Act})
				return text(err)
			},
		},
		{
			Of: []string{"Future.Wait(ctx)"}, On: "in Value, when it has ended", Want: with(Closes, "closed", atOnce("gone")),
			Do: func(w *futures, d *Do) string {
				ctx, cancel := context.WithTimeoutCause(context.Background(), time.Minute, errGone)
				defer cancel()
				_, err := w.gather("f").Wait(oddContext{Context: ctx, value: d.Act})
				return text(err)
			},
		},
		{
			Of: []string{"Gather(keys)", "GatherFunc(keys)"}, On: "afterwards", Want: ofSlices("1 1 1"),
			Do: func(w *futures, d *Do) string {
				keys := append(make([]string, 0, 4), "own", "more")
				var f *future.Future[int]
				if d.Of == "Gather(keys)" {
					f, _ = future.Gather[int](w.p, long, future.Any(2), keys...)
				} else {
					f = w.gather(keys...)
				}
				Slice(d, keys, "wild")
				d.Spoil()
				own, more := w.p.Waiting("own"), w.p.Waiting("more")
				f.Deliver(1, 1, nil)
				results, _ := f.Wait(context.Background())
				return fmt.Sprint(own, more, results[len(results)-1].Value)
			},
		},
		{
			Of: []string{"Future.Cancel(cause)", "Future.Deliver(err)", "Future.Post(err)"}, Silent: true, Want: silently("true"),
			Do: func(w *futures, d *Do) string {
				cause := &oddError{d.Act}
				f := w.gather("f")
				switch d.Of {
				case "Future.Cancel(cause)":
					f.Cancel(cause)
				case "Future.Deliver(err)":
					f.Deliver(1, 0, cause)
					f.Deliver(2, 0, cause)
				default:
					f.Post(1, 0, cause)
					f.Post(2, 0, cause)
				}
				results, err := f.Wait(context.Background())
				return fmt.Sprint(err != nil && (len(results) == 1 || same(results[1].Err, cause)))
			},
		},
	}
	for on, end := range map[string]func(w *futures, f *future.Future[int]) any{
		"at a delivery":     func(_ *futures, f *future.Future[int]) any { return f.Deliver(1, 1, nil) },
		"when it is failed": func(_ *futures, f *future.Future[int]) any { f.Deliver(1, 1, errGone); return f.Deliver(2, 1, errGone) },
		"by Cancel":         func(_ *futures, f *future.Future[int]) any { f.Cancel(errGone); return true },
		"by CancelForKey":   func(w *futures, _ *future.Future[int]) any { return w.p.CancelForKey("f", errGone) == 1 },
		"by Close":          func(w *futures, _ *future.Future[int]) any { return w.p.Close() == nil },
		"by Post":           func(_ *futures, f *future.Future[int]) any { return f.Post(1, 1, nil) },
		"at its timeout":    func(*futures, *future.Future[int]) any { time.Sleep(2 * time.Minute); return true },
	} {
		want := recovered("true")
		if on == "by Post" || on == "at its timeout" {
			want = elsewhere("true")
		}
		rows = append(rows, Row[*futures]{
			Of: []string{"GatherFunc(ended)"}, On: on, Want: and(want, ofSlices("true")),
			Do: func(w *futures, d *Do) string {
				timeout := long
				if on == "at its timeout" {
					timeout = time.Minute
				}
				f := w.gatherIn(timeout, func(results []future.Result[int], _ error) {
					Slice(d, results, future.Result[int]{From: 9})
					d.Act()
				}, "f")
				return fmt.Sprint(end(w, f))
			},
		})
	}
	Check(t, "../../future", newFutures, rows)
}
