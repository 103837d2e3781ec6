package timer_test

import (
	"fmt"
	"time"

	"github.com/delayedop/purgatory/timer"
)

// A test moves the clock of a ManualTimer.
func ExampleManualTimer_AfterFunc() {
	t, err := timer.NewManualTimer()
	if err != nil {
		panic(err)
	}
	h, err := t.AfterFunc(30*time.Second, func() { fmt.Println("timed out at", t.Now()) })
	if err != nil {
		panic(err)
	}
	t.AdvanceClock(20 * time.Second)
	fmt.Println("expired:", h.Expired(), "at", t.Now())
	t.AdvanceClock(20 * time.Second)
	fmt.Println("expired:", h.Expired(), "at", t.Now())
	// Output:
	// expired: false at 20s
	// timed out at 30s
	// expired: true at 40s
}

func ExampleManualTimer_ScheduleAtFixedRate() {
	t, err := timer.NewManualTimer()
	if err != nil {
		panic(err)
	}
	h, err := t.ScheduleAtFixedRate(time.Second, 2*time.Second, func() { fmt.Println("heartbeat at", t.Now()) })
	if err != nil {
		panic(err)
	}
	t.AdvanceClock(6 * time.Second)
	fmt.Println("stopped:", h.Stop())
	t.AdvanceClock(time.Minute)
	fmt.Println("cancelled:", h.Cancelled())
	// Output:
	// heartbeat at 1s
	// heartbeat at 3s
	// heartbeat at 5s
	// stopped: true
	// cancelled: true
}

func ExampleHandle_Extend() {
	t, err := timer.NewManualTimer()
	if err != nil {
		panic(err)
	}
	session, err := t.AfterFunc(10*time.Second, func() { fmt.Println("no heartbeat, gone at", t.Now()) })
	if err != nil {
		panic(err)
	}
	for range 3 {
		t.AdvanceClock(4 * time.Second)
		fmt.Println("heartbeat in time:", session.Extend(10*time.Second))
	}
	t.AdvanceClock(time.Minute)
	// Output:
	// heartbeat in time: true
	// heartbeat in time: true
	// heartbeat in time: true
	// no heartbeat, gone at 22s
}

func ExampleSystemTimer() {
	t, err := timer.NewSystemTimer()
	if err != nil {
		panic(err)
	}
	t.Start()
	done := make(chan struct{})
	if _, err := t.AfterFunc(time.Millisecond, func() { close(done) }); err != nil {
		panic(err)
	}
	<-done
	if _, err := t.AfterFunc(time.Hour, func() {}); err != nil {
		panic(err)
	}
	fmt.Println("not fired:", len(t.Stop()))
	// Output:
	// not fired: 1
}

// proposal is what a raft library keeps of a request. Proposals are pooled: an idle one may go to the
// clock of another group.
type proposal struct {
	timer.TaskEntry
	index uint64
}

func (p *proposal) RunTask(*timer.TaskEntry) { fmt.Println("proposal", p.index, "is not answered") }

// A raft library counts ticks: its node moves the clock by one at each, and gives up on a proposal after
// so many. A tick costs the same beside ten proposals and ten thousand.
func ExampleManualTimer_ticks() {
	clock, err := timer.NewManualTimer(timer.WithTick(1)) // a tick of the node is a nanosecond of the clock
	if err != nil {
		panic(err)
	}
	const patience = 10 // ticks
	proposals := make([]proposal, 3)
	for i := range proposals {
		p := &proposals[i]
		p.index = uint64(i + 1)
		p.Bind(p)
		if err := clock.AddAt(&p.TaskEntry, clock.Now(), timer.Deadline(clock.Now(), patience)); err != nil {
			panic(err)
		}
		clock.AdvanceClock(2)
	}
	fmt.Println("answered in time:", clock.Cancel(&proposals[1].TaskEntry))
	for clock.Pending() > 0 {
		if clock.AdvanceClock(1) {
			fmt.Println("at tick", int64(clock.Now()))
		}
	}
	// Output:
	// answered in time: true
	// proposal 1 is not answered
	// at tick 10
	// proposal 3 is not answered
	// at tick 14
}
