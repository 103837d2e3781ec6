package odd

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/queue"
	"github.com/delayedop/purgatory/timer"
)

// queues is a World of a queue with two who wait, one where the odd user does, and one for another kind.
type queues struct {
	t       *testing.T
	clock   *timer.SystemTimer
	q       *queue.Queue[any]
	near    *queue.Waiter[any]
	reports atomic.Int32
	closed  bool
}

var far = queue.Place{Kinds: []string{"far"}}

func newQueues(t *testing.T) *queues {
	w := &queues{t: t}
	var err error
	w.clock, err = timer.NewSystemTimer(timer.WithWorkers(4), timer.WithPanicHandler(func(any, []byte) { w.reports.Add(1) }))
	require.NoError(t, err)
	w.clock.Start()
	w.q, err = queue.New[any](queue.WithTimer(w.clock))
	require.NoError(t, err)
	return w
}

// odd puts a request with a callback into the line, and another one behind it.
func (w *queues) odd(timeout time.Duration, done func(any, error)) *queue.Waiter[any] {
	o, err := w.q.Start(timeout, done)
	require.NoError(w.t, err)
	w.near, err = w.q.Start(long, nil)
	require.NoError(w.t, err)
	return o
}

func (w *queues) Back() {
	assert.NoError(w.t, Methods(w.q, []string{"Close", "Shutdown"}, func(_ string, of reflect.Type) any {
		switch of {
		case reflect.TypeFor[context.Context]():
			return context.Background()
		case reflect.TypeFor[time.Duration]():
			return time.Duration(0)
		case reflect.TypeFor[queue.Place]():
			return queue.Place{Kinds: []string{"new"}}
		case reflect.TypeFor[func(any, error)]():
			return func(any, error) {}
		case reflect.TypeFor[any](), reflect.TypeFor[error]():
			return errGone
		}
		return nil
	}))
}

func (w *queues) Close() { w.q.Close(errGone); w.closed = true }

func (w *queues) Seen() string {
	time.Sleep(time.Minute)
	synctest.Wait()
	if w.reports.Swap(0) > 0 {
		return "reported"
	}
	return ""
}

func (w *queues) Beside() {
	if w.closed {
		return
	}
	o, err := w.q.Start(long, nil, far)
	require.NoError(w.t, err)
	require.NoError(w.t, w.q.Put("for far", far))
	item, err := o.Result()
	assert.Equal(w.t, "for far", item)
	assert.NoError(w.t, err)
	_, err = w.q.Take(w.t.Context(), time.Minute, far)
	assert.ErrorIs(w.t, err, queue.ErrExpired, "a timeout")
}

func (w *queues) End() {
	synctest.Wait()
	if w.near != nil && !w.closed {
		require.NoError(w.t, w.q.Put("for the next"))
		_, err := w.near.Result()
		assert.NoError(w.t, err, "who stands behind")
	}
	w.q.Close(nil)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	assert.NoError(w.t, w.q.Shutdown(ctx), "every callback has returned")
	s := w.q.Stats()
	assert.Zero(w.t, s.Waiting)
	w.clock.Stop()
}

func TestOddUsersOfAQueue(t *testing.T) {
	ctxs := map[string]func(ctx context.Context, d *Do) context.Context{
		"in Done":                     func(ctx context.Context, d *Do) context.Context { return oddContext{Context: ctx, done: d.Act} },
		"in Value, when it has ended": func(ctx context.Context, d *Do) context.Context { return oddContext{Context: ctx, value: d.Act} },
	}
	rows := []Row[*queues]{
		{
			Of: []string{"Queue.Start(at)", "Queue.Take(at)", "Place.Kinds"}, On: "while it waits", Want: ofSlices("an item<nil>"),
			Do: func(w *queues, d *Do) string {
				kinds := append(make([]string, 0, 4), "a", "b")
				at := append(make([]queue.Place, 0, 4), queue.Place{Kinds: kinds})
				wild := func() {
					if d.Of == "Place.Kinds" {
						Slice(d, kinds, "wild")
					} else {
						Slice(d, at, queue.Place{Kinds: []string{"wild"}})
					}
					d.Spoil()
				}
				if d.Of == "Queue.Take(at)" {
					go func() {
						synctest.Wait()
						wild()
						assert.NoError(w.t, w.q.Put("an item", queue.Place{Kinds: []string{"b"}}))
					}()
					return fmt.Sprint(w.q.Take(w.t.Context(), long, at...))
				}
				o, err := w.q.Start(long, nil, at...)
				require.NoError(w.t, err)
				wild()
				require.NoError(w.t, w.q.Put("an item", queue.Place{Kinds: []string{"b"}}))
				return fmt.Sprint(o.Result())
			},
		},
		{
			Of: []string{"Queue.Put(at)", "Queue.PutBack(at)", "Queue.Hand(at)", "Place.Kinds"}, On: "afterwards", Want: ofSlices("an item<nil>"),
			Do: func(w *queues, d *Do) string {
				kinds := append(make([]string, 0, 4), "a")
				at := append(make([]queue.Place, 0, 4), queue.Place{Kinds: kinds})
				a := queue.Place{Kinds: []string{"a"}}
				o, err := w.q.Start(long, nil, a)
				require.NoError(w.t, err)
				switch d.Of {
				case "Queue.Hand(at)":
					_, err = w.q.Hand("an item", at...)
				case "Queue.PutBack(at)":
					require.NoError(w.t, w.q.Put("first", a))
					o, _ = w.q.Start(long, nil, a)
					err = w.q.PutBack("an item", at...)
				default:
					require.NoError(w.t, w.q.Put("first", a))
					o, err = nil, w.q.Put("an item", at...)
				}
				require.NoError(w.t, err)
				if d.Of == "Place.Kinds" {
					Slice(d, kinds, "wild")
				} else {
					Slice(d, at, queue.Place{Kinds: []string{"wild"}})
				}
				d.Spoil()
				if o == nil {
					return fmt.Sprint(w.q.Take(w.t.Context(), 0, a))
				}
				return fmt.Sprint(o.Result())
			},
		},
		{
			Of: []string{"T"}, Silent: true, Want: silently("true <nil>"),
			Do: func(w *queues, d *Do) string {
				item := &oddError{d.Act}
				require.NoError(w.t, w.q.Put(item))
				got, err := w.q.Take(w.t.Context(), 0)
				return fmt.Sprint(got == item, " ", err)
			},
		},
		{
			Of: []string{"Queue.Close(cause)"}, Silent: true, Want: silently("true, true"),
			Do: func(w *queues, d *Do) string {
				cause := &oddError{d.Act}
				o := w.odd(long, nil)
				w.q.Close(cause)
				w.closed = true
				_, err := o.Result()
				return fmt.Sprint(same(err, cause), ", ", same(w.q.Put(1), cause))
			},
		},
		{Of: []string{"Timer.Entries", "Timer.Now"}, Not: "only package timer can implement it"},
	}
	for on, ctx := range ctxs {
		rows = append(rows, Row[*queues]{
			Of: []string{"Queue.Take(ctx)"}, On: on,
			Want: with(Closes, map[string]string{"in Done": "gone", "in Value, when it has ended": "why"}[on], atOnce("why")),
			Do: func(w *queues, d *Do) string {
				inner, cancel := context.WithTimeoutCause(context.Background(), time.Minute, errors.New("why"))
				defer cancel()
				_, err := w.q.Take(ctx(inner, d), long)
				return text(err)
			},
		}, Row[*queues]{
			Of: []string{"Queue.Shutdown(ctx)"}, On: on,
			Want: with(Closes, map[string]string{"in Done": "nil", "in Value, when it has ended": "why"}[on], atOnce("why")),
			Do: func(w *queues, d *Do) string {
				inner, cancel := context.WithTimeoutCause(context.Background(), time.Minute, errors.New("why"))
				defer cancel()
				_, err := w.q.Start(long, nil)
				require.NoError(w.t, err)
				w.closed = true
				return text(w.q.Shutdown(ctx(inner, d)))
			},
		})
	}
	for on, end := range map[string]func(w *queues, o *queue.Waiter[any]) any{
		"when it is served":    func(w *queues, _ *queue.Waiter[any]) any { return w.q.Put("an item") },
		"when it is handed to": func(w *queues, _ *queue.Waiter[any]) any { handed, _ := w.q.Hand("an item"); return handed },
		"when it stops":        func(_ *queues, o *queue.Waiter[any]) any { return o.Stop() },
		"at its timeout":       func(*queues, *queue.Waiter[any]) any { time.Sleep(2 * time.Minute); return "later" },
		"at the close":         func(w *queues, _ *queue.Waiter[any]) any { w.closed = true; return len(w.q.Close(errGone)) },
	} {
		want := map[string]string{"when it is served": "<nil>", "at its timeout": "later", "at the close": "0"}[on]
		if want == "" {
			want = "true"
		}
		rows = append(rows, Row[*queues]{
			Of: []string{"Queue.Start(done)"}, On: on, Want: elsewhere(want),
			Do: func(w *queues, d *Do) string {
				timeout := long
				if on == "at its timeout" {
					timeout = time.Minute
				}
				return fmt.Sprint(end(w, w.odd(timeout, func(any, error) { d.Act() })))
			},
		})
	}
	Check(t, "../../queue", newQueues, rows)
}
