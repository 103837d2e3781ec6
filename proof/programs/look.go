package programs

import (
	"context"
	"log/slog"
	"runtime"

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

// String runs as TryComplete does.
func (o *waiter) String() string {
	sched.Yield()
	w := o.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if o.trying || o.calling {
		o.fault("String overlaps TryComplete or a callback")
	}
	if o.exits && !w.resting {
		runtime.Goexit()
	}
	return "an operation"
}

// inspect shows what waits.
func (w *world) inspect() {
	for _, o := range w.p.Inspect(8, 8).Oldest {
		if o.Age < 0 || o.Keys < 1 {
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
	if n := w.p.NumKeys(); n != int(s.Keys) {
		w.fault("NumKeys is %d, and Keys %d", n, s.Keys)
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
	if !s.Timed {
		return
	}
	if n := s.Ages.Count(); n != s.Pending {
		w.fault("ages of %d operations, and %d are pending", n, s.Pending)
	}
	for o := operation.Satisfied; int(o) < operation.NumOutcomes; o++ {
		if n := s.Waited[o].Count(); n != s.Ended(o) {
			w.fault("%d operations have ended as %v, and %d have waited", s.Ended(o), o, n)
		}
	}
	if n := s.Late.Count(); n > s.Expired {
		w.fault("%d have expired, and %d were late", s.Expired, n)
	}
	if s.StuckCallbacks != 0 || s.OldestRunning != 0 {
		w.fault("%d callbacks are stuck at rest, the oldest for %v", s.StuckCallbacks, s.OldestRunning)
	}
}

// judgeOrder checks that nobody has overtaken an operation that was waiting when its own
// registration began.
func (w *world) judgeOrder() {
	if !w.ordered() {
		return
	}
	for _, first := range w.waiters {
		for _, o := range w.waiters {
			if !first.travels && !o.travels && first.watched > 0 && first.took > 0 && o.took > 0 && o.keys[0] == first.keys[0] && o.begun[0] > first.watched && o.took < first.took {
				w.fault("o%d was registered when o%d began, and has got its item later", first.id, o.id)
			}
		}
	}
}

// judgeLines checks each key at rest. No more operations wait that have it as their first one than may. In a queue
// whose operations take one item or two, those that are left do not all have what they need: somebody is the first
// in line, and a check came after the last item, or those before have left, which lets the others be tried.
func (w *world) judgeLines() {
	for k := range w.keys {
		first, able, unknown := 0, 0, 0
		for _, o := range w.waiters {
			if o.keys[0] == k && !o.waits && o.returned < len(o.begun) && o.completed == 0 {
				unknown++ // a callback has ended the goroutine that registered it: it may wait, as the first
			}
			if o.pends() && o.keys[0] == k {
				first++
				if w.items[k] >= o.weight() && o.needs == item {
					able++
				}
			}
		}
		if w.perKey > 0 && first > w.perKey {
			w.fault("%d operations wait for k%d, at most %d may", first, k, w.perKey)
		}
		if w.ordered() && first > 0 && unknown == 0 && able == first && w.inTurn[k] > w.put[k] && !w.closing {
			w.fault("%d operations wait in the line of k%d, beside %d items", first, k, w.items[k])
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
