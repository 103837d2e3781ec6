package odd

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"reflect"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/signals"
)

// runners is a World of a runner, with one who waits for a change that nobody hints at.
type runners struct {
	t       *testing.T
	p       *purgatory.Purgatory[string]
	r       *signals.Runner[string]
	stop    context.CancelCauseFunc // the context of Run
	run     chan string             // how Run has ended
	changed atomic.Bool
	woken   atomic.Bool
}

func newRunners(t *testing.T) *runners {
	p, err := purgatory.New[string]("odd", purgatory.WithPanicHandler(func(any, []byte) {}))
	require.NoError(t, err)
	w := &runners{t: t, p: p, run: make(chan string, 1)}
	go func() {
		if p.Await(context.Background(), purgatory.NoTimeout, w.changed.Load, "near") == nil {
			w.woken.Store(true)
		}
	}()
	synctest.Wait()
	return w
}

// to makes the runner.
func (w *runners) to(p signals.Waiters[string], options ...signals.Option) *signals.Runner[string] {
	r, err := signals.To(p, append(options, signals.WithLag(0), signals.WithAudit(0), signals.WithSpread(0), signals.WithResyncLimit(time.Second))...)
	require.NoError(w.t, err)
	w.r = r
	return r
}

// runs has a source run for ten minutes after the change, and says whether the wait has ended.
func (w *runners) runs(source func(ctx context.Context, sink signals.Sink[string]) error) string {
	ctx, stop := context.WithCancelCause(context.Background())
	w.stop = stop
	w.changed.Store(true)
	time.AfterFunc(10*time.Minute, func() { stop(errGone) })
	how := text(w.r.Run(ctx, signals.SourceFunc[string](source)))
	synctest.Wait()
	return fmt.Sprint(how, ", woken: ", w.woken.Load())
}

// stands is a source that has nothing to say but that it stands.
func stands(ctx context.Context, sink signals.Sink[string]) error {
	sink.Missed(signals.ErrSubscribed)
	<-ctx.Done()
	return context.Cause(ctx)
}

func (w *runners) Back() {
	if w.r == nil {
		return
	}
	assert.NoError(w.t, Methods(w.r, []string{"Run", "Subscribed"}, func(_ string, of reflect.Type) any {
		switch of {
		case reflect.TypeFor[string]():
			return "far"
		case reflect.TypeFor[int64]():
			return int64(1)
		case reflect.TypeFor[uint64]():
			return uint64(1)
		case reflect.TypeFor[error]():
			return errGone
		}
		return nil
	}))
}

func (w *runners) Close() {
	_ = w.p.Close()
	if w.stop != nil {
		w.stop(errGone)
	}
}

func (w *runners) Seen() string { return "" }

func (w *runners) Beside() {
	if w.p.Closed() {
		return
	}
	o := &op{met: new(atomic.Bool)}
	_, err := w.p.TryCompleteElseWatch(o, long, "far")
	require.NoError(w.t, err)
	o.met.Store(true)
	if w.r == nil {
		w.p.Signal("far")
	} else {
		w.r.Changed("far", signals.Unknown)
	}
	synctest.Wait()
	assert.EqualValues(w.t, 1, o.completed.Load(), "a hint for another key")
}

// End runs a source again, that stands.
func (w *runners) End() {
	if w.stop != nil {
		w.stop(errGone)
	}
	time.Sleep(time.Minute)
	if !w.p.Closed() && w.r != nil {
		ctx, stop := context.WithTimeoutCause(context.Background(), time.Minute, errGone)
		defer stop()
		w.changed.Store(true)
		assert.ErrorIs(w.t, w.r.Run(ctx, signals.SourceFunc[string](stands)), errGone)
		assert.True(w.t, w.woken.Load(), "woken")
	}
	assert.NoError(w.t, w.p.Close())
	synctest.Wait()
}

// oddWaiters is a purgatory behind a user's own type.
type oddWaiters struct {
	p                  *purgatory.Purgatory[string]
	keys, body, signal func()
}

func (o oddWaiters) SignalUpTo(key string, position int64) bool {
	act(o.signal)
	return o.p.SignalUpTo(key, position)
}

func (o oddWaiters) Keys() iter.Seq[string] {
	act(o.keys)
	return func(yield func(string) bool) {
		act(o.body)
		o.p.Keys()(yield)
	}
}

// queued is a source that says how full its queue is.
type queued struct{ act func() }

func (q queued) QueueUsed() float64 { q.act(); return 0.5 }
func (q queued) Run(ctx context.Context, sink signals.Sink[string]) error {
	return stands(ctx, sink)
}

func TestOddUsersOfSignals(t *testing.T) {
	const ran = "gone, woken: true"
	again := map[User]string{Panics: ran, Exits: ran, CallsBack: ran, Closes: "gone, woken: false", Stays: "stays"}
	rows := []Row[*runners]{
		{Of: []string{"K"}, Not: "package purgatory does what is to be done with keys, and has the cells"},
		{Of: []string{"Sink.Changed", "Sink.Heard", "Sink.Missed", "Sink.Subscribed"}, Not: "a Runner hands itself to the source"},
		{Of: []string{"SourceFunc.Run(ctx)"}, Not: "a Runner hands a context of its own to the source"},
		{
			Of: []string{"AwaitRead(ctx)"}, On: "in Done", Want: with(Closes, "closed", atOnce("7 nil")),
			Do: func(w *runners, d *Do) string {
				ctx := oddContext{Context: context.Background(), done: d.Act}
				v, err := signals.AwaitRead(ctx, w.p, long, func(context.Context) (int, bool, error) { return 7, true, nil }, "near")
				if err != nil {
					return text(err)
				}
				return fmt.Sprint(v, " ", text(err))
			},
		},
		{
			Of: []string{"AwaitRead(ctx)"}, On: "in Value", Want: with(Closes, "closed", atOnce("nil")),
			Do: func(w *runners, d *Do) string {
				inner, cancel := context.WithCancel(context.Background())
				defer cancel()
				ctx := oddContext{Context: inner, value: d.Act}
				_, err := signals.AwaitRead(ctx, w.p, long, func(context.Context) (int, bool, error) { return 7, true, nil }, "near")
				return text(err)
			},
		},
		{
			Of: []string{"AwaitRead(read)"}, On: "at first", Want: atOnce("nil"),
			Do: func(w *runners, d *Do) string {
				_, err := signals.AwaitRead(context.Background(), w.p, long, func(context.Context) (int, bool, error) { d.Act(); return 7, true, nil }, "near")
				return text(err)
			},
		},
		{
			Of: []string{"AwaitRead(read)"}, On: "when it is woken", Want: with(Closes, "closed", atOnce("expired")),
			Do: func(w *runners, d *Do) string {
				n := 0
				time.AfterFunc(time.Minute, func() { w.p.Signal("read") })
				_, err := signals.AwaitRead(context.Background(), w.p, 10*time.Minute, func(context.Context) (int, bool, error) {
					if n++; n == 2 {
						d.Act()
					}
					return 7, false, nil
				}, "read")
				return text(err)
			},
		},
		{
			Of: []string{"AwaitRead(keys)"}, On: "in its read", Want: ofSlices("7 nil after 3 reads"),
			Do: func(w *runners, d *Do) string {
				keys := append(make([]string, 0, 4), "read")
				reads := 0
				for i := range 3 {
					time.AfterFunc(time.Duration(i+1)*time.Minute, func() { w.p.Signal("read") })
				}
				v, err := signals.AwaitRead(context.Background(), w.p, time.Hour/2, func(context.Context) (int, bool, error) {
					if reads++; reads == 1 {
						Slice(d, keys, "wild")
						d.Spoil()
					}
					return 7, reads == 3, nil
				}, keys...)
				return fmt.Sprintf("%d %s after %d reads", v, text(err), reads)
			},
		},
		{
			Of: []string{"Several(all)"}, On: "afterwards", Want: ofSlices(ran),
			Do: func(w *runners, d *Do) string {
				other := newRunners(w.t)
				defer other.p.Close()
				all := append(make([]signals.Waiters[string], 0, 4), w.p)
				w.to(signals.Several(all...))
				Slice(d, all, signals.Waiters[string](other.p))
				d.Spoil()
				return w.runs(stands)
			},
		},
		{
			Of: []string{"Runner.Missed(cause)"}, Silent: true, Want: silently(ran),
			Do: func(w *runners, d *Do) string {
				w.to(w.p)
				return w.runs(func(ctx context.Context, sink signals.Sink[string]) error {
					sink.Missed(&oddError{d.Act})
					return stands(ctx, sink)
				})
			},
		},
		{
			Of: []string{"Source.Run"}, Want: map[User]string{Panics: "panics", Exits: "exits", CallsBack: ran, Closes: "gone, woken: false", Stays: "stays"},
			Do: func(w *runners, d *Do) string {
				w.to(w.p)
				return w.runs(func(ctx context.Context, sink signals.Sink[string]) error {
					d.Act()
					return stands(ctx, sink)
				})
			},
		},
		{
			Of: []string{"Subscription.Probe"}, On: "at first", Want: again,
			Do: func(w *runners, d *Do) string {
				w.to(w.p)
				n := 0
				return w.runs(func(ctx context.Context, sink signals.Sink[string]) error {
					n++
					sink.Subscribed(signals.Subscription{Every: time.Second, Limit: time.Minute, Probe: func(_ context.Context, probe uint64) error {
						if n == 1 {
							d.Act()
						}
						sink.Heard(probe)
						return nil
					}})
					<-ctx.Done()
					return context.Cause(ctx)
				})
			},
		},
		{
			Of: []string{"Part(in)"}, On: "at first", Want: again,
			Do: func(w *runners, d *Do) string {
				n := 0
				w.to(signals.Part[string](w.p, func(string) bool {
					if n++; n == 1 {
						d.Act()
					}
					return true
				}))
				return w.runs(stands)
			},
		},
		{
			Of: []string{"Runner.Run(ctx)"}, On: "in Done and Value", Want: atOnce("gone"),
			Do: func(w *runners, d *Do) string {
				w.to(w.p)
				ctx, cancel := context.WithTimeoutCause(context.Background(), time.Minute, errGone)
				defer cancel()
				n := 0
				first := func() {
					if n++; n == 1 {
						d.Act()
					}
				}
				return text(w.r.Run(oddContext{Context: ctx, done: first, value: nil}, signals.SourceFunc[string](stands)))
			},
		},
		{
			Of: []string{"Queued.QueueUsed"}, On: "in Stats", Want: with(CallsBack, "gone", atOnce("gone")),
			Do: func(w *runners, d *Do) string {
				w.to(w.p)
				ctx, cancel := context.WithTimeoutCause(context.Background(), time.Minute, errGone)
				defer cancel()
				ended := make(chan string, 1)
				n := 0
				go func() {
					ended <- text(w.r.Run(ctx, queued{func() {
						if n++; n == 1 {
							d.Act()
						}
					}}))
				}()
				synctest.Wait()
				w.r.Stats()
				return <-ended
			},
		},
		{
			Of: []string{"WithResync(read)"}, On: "at first", Want: and(again, ofSlices(ran)),
			Do: func(w *runners, d *Do) string {
				n := 0
				w.to(w.p, signals.WithResync(func(_ context.Context, keys []string) error {
					if n++; n == 1 {
						Slice(d, keys, "wild")
						d.Act()
					}
					return nil
				}))
				return w.runs(stands)
			},
		},
	}
	for on, h := range map[string]func(act func()) oddHandler{
		"in Enabled": func(act func()) oddHandler { return oddHandler{enabled: act} },
		"in Handle":  func(act func()) oddHandler { return oddHandler{handle: act} },
	} {
		rows = append(rows, Row[*runners]{
			Of: []string{"WithLogger(l)"}, On: on, Want: with(Closes, "gone", silently(ran)),
			Do: func(w *runners, d *Do) string {
				w.to(w.p, signals.WithLogger(slog.New(h(d.Act))))
				how := w.runs(stands)
				if d.User == Closes { // before the wait is woken, or afterwards
					return how[:len("gone")]
				}
				return how
			},
		})
	}
	for on, h := range map[string]func(w *oddWaiters, act func()){
		"Waiters.Keys":       func(w *oddWaiters, act func()) { w.keys = act },
		"Waiters.Keys()":     func(w *oddWaiters, act func()) { w.body = act },
		"Waiters.SignalUpTo": func(w *oddWaiters, act func()) { w.signal = act },
	} {
		rows = append(rows, Row[*runners]{
			Of: []string{on}, On: "at first", Want: again,
			Do: func(w *runners, d *Do) string {
				n := 0
				first := func() {
					if n++; n == 1 {
						d.Act()
					}
				}
				o := oddWaiters{p: w.p}
				h(&o, first)
				w.to(o)
				return w.runs(stands)
			},
		})
	}
	Check(t, "../../signals", newRunners, rows)
}
