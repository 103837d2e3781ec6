package programs

import (
	"context"
	"log/slog"

	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/operation"
)

// logger is the handler of a logger that calls the purgatory back, which takes every lock.
type logger struct{ w *world }

func (l logger) Enabled(context.Context, slog.Level) bool { return true }
func (l logger) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l logger) WithGroup(string) slog.Handler            { return l }

func (l logger) Handle(context.Context, slog.Record) error {
	sched.Yield()
	if l.w.p != nil {
		l.w.p.Stats()
	}
	return nil
}

// inspect shows what waits.
func (w *world) inspect() {
	for _, o := range w.p.Inspect(8).Oldest {
		if o.Age < 0 {
			w.fault("inspect: %+v", o)
		}
	}
}

// iterate iterates over the keys. It must yield those for which an operation has waited all the time.
func (w *world) iterate() {
	w.mu.Lock()
	must := map[int]*waiter{}
	for _, o := range w.waiters {
		if o.accepted && !o.abroad && o.completed == 0 {
			for _, k := range o.keys {
				must[w.ids[k]] = o
			}
		}
	}
	w.mu.Unlock()
	for key := range w.p.Keys() {
		sched.Yield()
		delete(must, key)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, o := range must {
		w.missed = append(w.missed, o)
	}
}

// judgeFigures checks at rest what the purgatory says of itself.
func (w *world) judgeFigures() {
	s := w.p.Stats()
	if n := w.p.NumDelayed(); n != int(s.Pending) {
		w.fault("NumDelayed is %d, and Pending %d", n, s.Pending)
	}
	if n := w.p.Watched(); n != int(s.Watched) {
		w.fault("Watched is %d, and in Stats %d", n, s.Watched)
	}
	for _, o := range w.missed {
		if o.completed == 0 {
			w.fault("o%d has waited all the time, and Keys has not yielded its keys", o.id)
		}
	}
	for _, o := range w.waiters {
		for _, k := range o.keys {
			if o.accepted && !o.abroad && o.completed == 0 && w.p.Waiting(w.ids[k]) == 0 {
				w.fault("o%d waits for k%d, and Awaited says no", o.id, k)
			}
		}
	}
	if s.Waited == nil {
		return
	}
	for o := operation.Satisfied; int(o) < operation.NumOutcomes; o++ {
		if n := s.Waited[o].Count(); n != s.Ended(o) {
			w.fault("%d operations have ended as %v, and %d have waited", s.Ended(o), o, n)
		}
	}
}

// judgeKeys checks each key at rest: no more operations wait that have it as their first one than may.
func (w *world) judgeKeys() {
	for k := range w.keys {
		first := 0
		for _, o := range w.waiters {
			if o.pends() && o.keys[0] == k {
				first++
			}
		}
		if w.perKey > 0 && first > w.perKey {
			w.fault("%d operations wait for k%d, at most %d may", first, k, w.perKey)
		}
	}
}

// pends reports whether o was accepted and has not ended.
func (o *waiter) pends() bool {
	if o.waits {
		return len(o.begun) > 0 && o.completed == 0 && !o.gone
	}
	return o.accepted && !o.abroad && o.completed == 0
}
