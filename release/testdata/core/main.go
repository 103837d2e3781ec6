// A program of somebody else's that uses the root module alone.
package main

import (
	"fmt"
	"log"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"time"

	"github.com/delayedop/purgatory/debug"
	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/signals"
	"github.com/delayedop/purgatory/timer"
)

type produce struct {
	operation.DelayedOperation
	replicated atomic.Bool
}

func (p *produce) TryComplete() bool { return p.replicated.Load() }
func (p *produce) OnComplete()       {}
func (p *produce) OnExpiration()     {}

func main() {
	clock, err := timer.NewManualTimer()
	check(err)
	p, err := purgatory.New[string]("produce", purgatory.WithTimer(clock))
	check(err)
	_, err = signals.To(p)
	check(err)
	page, err := debug.New(p)
	check(err)

	first, second := new(produce), new(produce)
	for _, op := range []*produce{first, second} {
		_, err = p.TryCompleteElseWatch(op, 30*time.Second, "orders-0")
		check(err)
	}
	answer := httptest.NewRecorder()
	page.ServeHTTP(answer, httptest.NewRequest("GET", "/?format=text", nil))
	if answer.Code != 200 || !strings.Contains(answer.Body.String(), "produce") {
		log.Fatalf("the debug page answered %d: %s", answer.Code, answer.Body)
	}
	first.replicated.Store(true)
	p.CheckAndComplete("orders-0")
	p.AdvanceClock(30 * time.Second)
	page.Close()
	check(p.Close())
	fmt.Println(first.Outcome(), second.Outcome())
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
