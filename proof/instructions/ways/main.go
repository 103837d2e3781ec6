// Command ways goes one of the ways through the library so many times, for package instructions to count what it takes. It uses
// only what old and new cores have.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/timer"
)

// ways are what is counted. Each goes its way n times, a multiple of batch.
var ways = []struct {
	name string
	run  func(n int)
}{
	{"life, 64 a check", func(n int) { lives(n, batch, 1) }},
	{"life, one a check", func(n int) { lives(n, 1, 1) }},
	{"life, three keys", func(n int) { lives(n, batch, 3) }},
	{"forced", forced},
	{"expired", expired},
	{"Await, blocks and is woken", func(n int) { awaits(context.Background(), n) }},
	{"Await with a context", func(n int) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		awaits(ctx, n)
	}},
	{"Await, ready at once", readyAtOnce},
	{"operation, ready at once", completedAtOnce},
	{"check for nobody", checksForNobody},
	{"timer: add, cancel", addAndCancel},
	{"timer: add, expire in 31 to 60 s", addAndExpire},
}

// batch is how many operations live together.
const batch = 64

const (
	lifetime = 30 * time.Second
	key      = 1
)

func main() {
	list := flag.Bool("list", false, "print the names of the ways")
	flag.Parse()
	if *list {
		for _, w := range ways {
			fmt.Println(w.name)
		}
		return
	}
	n, err := strconv.Atoi(flag.Arg(1))
	for _, w := range ways {
		if err == nil && w.name == flag.Arg(0) {
			w.run(n)
			return
		}
	}
	fmt.Fprintln(os.Stderr, "usage: ways -list | ways <way> <how often>")
	os.Exit(2)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// open returns a purgatory whose reaper does nothing meanwhile.
func open(options ...purgatory.Option) *purgatory.Purgatory[int] {
	return must(purgatory.New[int]("ways", append(options, purgatory.WithoutReaper())...))
}

// request is an operation as users write it: the state of the wait, and a word of its own.
type request struct {
	operation.DelayedOperation
	ready *atomic.Bool
}

func (r *request) TryComplete() bool { return r.ready.Load() }
func (r *request) OnComplete()       {}
func (r *request) OnExpiration()     {}

// lives has each operation wait under a key of its own batch and, if there are more, some of the quiet ones that all share.
func lives(n, together, keys int) {
	p := open()
	var ready atomic.Bool
	var quiet [1000][3]int
	for i := range quiet {
		quiet[i] = [3]int{key, key + 1 + i, key + 1 + (i*331+7)%len(quiet)}
	}
	for i := 0; i < n; {
		ready.Store(false)
		for range together {
			must(p.TryCompleteElseWatch(&request{ready: &ready}, lifetime, quiet[i%len(quiet)][:keys]...))
			i++
		}
		ready.Store(true)
		if p.CheckAndComplete(key) != together {
			panic("a check has not ended who waits")
		}
	}
}

func forced(n int) {
	p := open()
	var never atomic.Bool
	var requests [batch]*request
	for ; n > 0; n -= batch {
		for i := range requests {
			requests[i] = &request{ready: &never}
			must(p.TryCompleteElseWatch(requests[i], lifetime, key))
		}
		for _, r := range requests {
			if !p.ForceComplete(r) {
				panic("it had ended")
			}
		}
	}
}

func expired(n int) {
	p := open(purgatory.WithTimer(must(timer.NewManualTimer())))
	var never atomic.Bool
	for ; n > 0; n -= batch {
		for range batch {
			must(p.TryCompleteElseWatch(&request{ready: &never}, time.Second, key))
		}
		if !p.AdvanceClock(2 * time.Second) {
			panic("none has expired")
		}
	}
}

// awaits has one goroutine wait again and again, and another one wake it. They share a processor: each runs until it blocks or
// lets the other one go.
func awaits(ctx context.Context, n int) {
	p := open()
	var position atomic.Int64
	var over atomic.Bool
	go func() {
		defer over.Store(true)
		for i := range int64(n) {
			if err := p.Await(ctx, lifetime, func() bool { return position.Load() > i }, key); err != nil {
				panic(err)
			}
		}
	}()
	for runtime.Gosched(); !over.Load(); runtime.Gosched() {
		position.Add(1)
		p.CheckAndComplete(key)
	}
}

func readyAtOnce(n int) {
	p := open()
	for range n {
		if err := p.Await(context.Background(), lifetime, func() bool { return true }, key); err != nil {
			panic(err)
		}
	}
}

func completedAtOnce(n int) {
	p := open()
	var ready atomic.Bool
	ready.Store(true)
	for range n {
		if !must(p.TryCompleteElseWatch(&request{ready: &ready}, lifetime, key)) {
			panic("it waits")
		}
	}
}

func checksForNobody(n int) {
	p := open()
	for range n {
		p.CheckAndComplete(key)
	}
}

// task is what the timer's entries are bound to.
type task struct{ ran int }

func (t *task) RunTask(*timer.TaskEntry) { t.ran++ }

func addAndCancel(n int) {
	t := must(timer.NewSystemTimer())
	var entries [batch]timer.TaskEntry
	for i := range entries {
		entries[i].Bind(new(task))
	}
	for ; n > 0; n -= batch {
		for i := range entries {
			now := t.Now()
			added(t.AddAt(&entries[i], now, now+lifetime))
			if !t.Cancel(&entries[i]) {
				panic("it was not pending")
			}
		}
	}
}

func addAndExpire(n int) {
	t := must(timer.NewManualTimer())
	var ran task
	entries := make([]timer.TaskEntry, n)
	for i := range entries {
		entries[i].Bind(&ran)
		added(t.AddAt(&entries[i], t.Now(), 31*time.Second+time.Duration(i*29)*time.Second/time.Duration(n)))
	}
	t.AdvanceClock(2 * time.Minute)
	if ran.ran != n {
		panic("some have not expired")
	}
}

func added(err error) {
	if err != nil {
		panic(err)
	}
}
