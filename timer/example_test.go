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
	fmt.Println(h.State(), "at", t.Now())
	t.AdvanceClock(20 * time.Second)
	fmt.Println(h.State(), "at", t.Now())
	// Output:
	// pending at 20s
	// timed out at 30s
	// expired at 40s
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
	fmt.Println(h.State())
	// Output:
	// heartbeat at 1s
	// heartbeat at 3s
	// heartbeat at 5s
	// stopped: true
	// cancelled
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
