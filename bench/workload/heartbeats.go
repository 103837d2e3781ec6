package workload

import (
	"fmt"
	"time"

	"github.com/delayedop/purgatory/bench/meter"
	"github.com/delayedop/purgatory/bench/purgatories"
	"github.com/delayedop/purgatory/bench/timers"
	"github.com/delayedop/purgatory/timer"
)

// heartbeats measures E1: 100,000 sessions whose deadline is moved 30 s ahead again and again.
func heartbeats(r *Run) {
	n := r.Million / 10
	rounds := r.longRounds()
	for round := range rounds {
		for _, peer := range sessionPeers {
			r.turn(fmt.Sprintf("E1  round %d of %d  %s", round+1, rounds, peer.name), func() {
				beat, end := peer.start(n)
				for _, g := range []int{1, 2} {
					order := random(g).Perm(n)
					next := make([]struct {
						at int
						_  [56]byte
					}, g)
					rate := meter.Loop(g, r.Window, 500, func(worker, k int) {
						// Each worker beats for its own half of the sessions.
						for range k {
							next[worker].at = (next[worker].at + g) % (n - n%g)
							beat(order[next[worker].at+worker])
						}
					})
					r.addRate("E1", fmt.Sprintf("G=%d/sessions=%d", g, n), peer.name, round, rate)
				}
				end()
			})
		}
	}
}

type sessionPeer struct {
	name  string
	start func(n int) (beat func(i int), end func())
}

// Names of the session peers that targets and tables refer to.
const (
	stdReset      = "std-reset"
	stopAfterFunc = "std-stop+afterfunc"
)

var sessionPeers = []sessionPeer{
	{"ours-operation", operationSessions},
	{"ours-entry", entrySessions},
	{"ours-handle", handleSessions},
	{stdReset, resetSessions},
	{stopAfterFunc, stopSessions},
}

func operationSessions(n int) (func(int), func()) {
	p := purgatories.ByName(purgatories.Ours).New()
	lane := purgatories.NewLane()
	ops := make([]purgatories.Operation, n)
	for i := range ops {
		ops[i] = p.Submit(lane, lifetime, []string{fmt.Sprintf("session-%d", i)})
	}
	rest(p)
	e := p.(purgatories.Extending)
	return func(i int) { must(e.Extend(ops[i], lifetime)) }, p.Close
}

// settle is rest for a timer.
func settle(t *timer.SystemTimer) { waitUntil(func() bool { return timers.AtRest(t) }) }

type silent struct{}

func (silent) RunTask(*timer.TaskEntry) {}

func entrySessions(n int) (func(int), func()) {
	t := timers.StartSystemTimer()
	entries := make([]timer.TaskEntry, n)
	for i := range entries {
		entries[i].Bind(silent{})
		if err := t.AddAt(&entries[i], t.Now(), timer.Deadline(t.Now(), lifetime)); err != nil {
			panic(err)
		}
	}
	settle(t)
	beat := func(i int) { must(t.Extend(&entries[i], timer.Deadline(t.Now(), lifetime))) }
	return beat, func() { t.Stop() }
}

func handleSessions(n int) (func(int), func()) {
	t := timers.StartSystemTimer()
	handles := make([]*timer.Handle, n)
	for i := range handles {
		h, err := t.AfterFunc(lifetime, func() {})
		if err != nil {
			panic(err)
		}
		handles[i] = h
	}
	settle(t)
	return func(i int) { must(handles[i].Extend(lifetime)) }, func() { t.Stop() }
}

func resetSessions(n int) (func(int), func()) {
	timers := make([]*time.Timer, n)
	for i := range timers {
		timers[i] = time.AfterFunc(lifetime, func() {})
	}
	return func(i int) { must(timers[i].Reset(lifetime)) }, func() { stopAll(timers) }
}

func stopSessions(n int) (func(int), func()) {
	timers := make([]*time.Timer, n)
	for i := range timers {
		timers[i] = time.AfterFunc(lifetime, func() {})
	}
	beat := func(i int) {
		must(timers[i].Stop())
		timers[i] = time.AfterFunc(lifetime, func() {})
	}
	return beat, func() { stopAll(timers) }
}

func stopAll(timers []*time.Timer) {
	for _, t := range timers {
		t.Stop()
	}
}

func must(inTime bool) {
	if !inTime {
		panic("a session expired within its 30 seconds")
	}
}
