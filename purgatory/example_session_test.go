package purgatory_test

import (
	"fmt"
	"time"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/timer"
)

// session ends when no heartbeat has come for some time.
type session struct{ operation.DelayedOperation }

func (s *session) TryComplete() bool { return false }
func (s *session) OnComplete()       { fmt.Println("session", s.Outcome()) }
func (s *session) OnExpiration()     {}

// Each heartbeat of a session moves its deadline.
func ExamplePurgatory_Extend() {
	clock, _ := timer.NewManualTimer()
	p, _ := purgatory.New[string]("sessions", purgatory.WithTimer(clock))
	defer p.Close()

	s := &session{}
	_, _ = p.TryCompleteElseWatch(s, 10*time.Second, "member-7")
	for range 1000 {
		p.AdvanceClock(9 * time.Second)
		p.Extend(s, 10*time.Second) // a heartbeat
	}
	fmt.Println("after", clock.Now(), s.Outcome())
	p.AdvanceClock(10 * time.Second)
	fmt.Println("extended:", p.Extend(s, 10*time.Second))
	// Output:
	// after 2h30m0s pending
	// session expired
	// extended: false
}
