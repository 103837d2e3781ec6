package purgatory_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/timer"
)

// delayedProduce is a produce with acks=all: it waits until every partition that it
// wrote to has replicated it.
type delayedProduce struct {
	operation.DelayedOperation
	name     string
	log      *replicatedLog
	required map[string]int64 // offset that the high watermark has to reach, by partition
}

func (d *delayedProduce) TryComplete() bool {
	for partition, offset := range d.required {
		if d.log.highWatermark(partition) < offset {
			return false
		}
	}
	return true
}

func (d *delayedProduce) OnComplete() {
	if d.Cause() != nil {
		fmt.Printf("%s: %v, %v\n", d.name, d.Outcome(), d.Cause())
		return
	}
	fmt.Printf("%s: %v\n", d.name, d.Outcome())
}

func (d *delayedProduce) OnExpiration() { fmt.Printf("%s: not replicated in time\n", d.name) }

// replicatedLog holds the high watermarks.
type replicatedLog struct {
	mu sync.Mutex
	hw map[string]int64
}

func (l *replicatedLog) highWatermark(partition string) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.hw[partition]
}

func (l *replicatedLog) advance(partition string, to int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hw == nil {
		l.hw = map[string]int64{}
	}
	l.hw[partition] = to
}

// A test of acks=all timeouts moves the time by hand.
func Example_acksAllTimeouts() {
	clock, _ := timer.NewManualTimer()
	p, _ := purgatory.New[string]("produce", purgatory.WithTimer(clock))
	defer p.Close()

	var log replicatedLog
	produce := func(name string, required map[string]int64) {
		d := &delayedProduce{name: name, log: &log, required: required}
		var partitions []string
		for partition := range required {
			partitions = append(partitions, partition)
		}
		if _, err := p.TryCompleteElseWatch(d, 30*time.Second, partitions...); err != nil {
			fmt.Println(err)
		}
	}
	produce("first", map[string]int64{"orders-0": 10})
	produce("second", map[string]int64{"orders-0": 20, "orders-1": 5})
	produce("third", map[string]int64{"orders-2": 1})

	log.advance("orders-0", 20) // the slowest follower has fetched
	fmt.Println("completed:", p.CheckAndComplete("orders-0"))
	p.CancelForKey("orders-2", errors.New("not the leader any more"))
	p.AdvanceClock(30*time.Second - 1)
	fmt.Println("waiting:", p.NumDelayed())
	p.AdvanceClock(1)
	fmt.Println("waiting:", p.NumDelayed())
	// Output:
	// first: satisfied
	// completed: 1
	// third: cancelled, not the leader any more
	// waiting: 1
	// second: expired
	// second: not replicated in time
	// waiting: 0
}

// The real timer needs no waiting either, in a bubble of testing/synctest.
func TestAcksAllTimesOutInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := purgatory.New[string]("produce")
		require.NoError(t, err)
		defer p.Close()
		var log replicatedLog
		late := &op{try: func() bool { return log.highWatermark("orders-0") >= 20 }}
		early := &op{try: func() bool { return log.highWatermark("orders-0") >= 10 }}
		submit(t, p, late, 30*time.Second, "orders-0")
		submit(t, p, early, 30*time.Second, "orders-0")

		time.Sleep(29 * time.Second)
		log.advance("orders-0", 10)
		assert.Equal(t, 1, p.CheckAndComplete("orders-0"))
		ended(t, early, operation.Satisfied)

		time.Sleep(time.Second + time.Millisecond) // the timeout, and a tick
		synctest.Wait()
		ended(t, late, operation.Expired)
	})
}

// fetch waits for news and prints what became of it.
type fetch struct {
	operation.DelayedOperation
	name string
	news *atomic.Bool
}

func (f *fetch) TryComplete() bool { return f.news.Load() }
func (f *fetch) OnComplete()       { fmt.Println(f.name, f.Outcome()) }
func (f *fetch) OnExpiration()     {}

func ExampleDelayedOperationPurgatory_CheckAndComplete() {
	p, _ := purgatory.New[string]("fetch")
	defer p.Close()

	var news atomic.Bool
	for _, name := range []string{"a", "b", "c"} {
		_, _ = p.TryCompleteElseWatch(&fetch{name: name, news: &news}, time.Minute, "topic")
	}
	fmt.Println(p.CheckAndComplete("topic"), "completed,", p.NumDelayed(), "waiting")
	news.Store(true) // first the state changes, then whoever changed it says where
	fmt.Println(p.CheckAndComplete("topic"), "completed,", p.NumDelayed(), "waiting")
	// Output:
	// 0 completed, 3 waiting
	// a satisfied
	// b satisfied
	// c satisfied
	// 3 completed, 0 waiting
}

// Signal is for a caller that holds a lock which the callbacks need.
func ExampleDelayedOperationPurgatory_Signal() {
	p, _ := purgatory.New[string]("group")

	var mu sync.Mutex
	members := 0
	joined := func() bool { mu.Lock(); defer mu.Unlock(); return members == 3 }
	done := make(chan error)
	go func() { done <- p.Await(context.Background(), time.Minute, joined, "group") }()

	for range 3 {
		mu.Lock()
		members++
		p.Signal("group") // CheckAndComplete would wait for the lock that is held here
		mu.Unlock()
	}
	fmt.Println("everybody is here:", <-done == nil)
	fmt.Println(p.Shutdown(context.Background()))
	// Output:
	// everybody is here: true
	// <nil>
}

// Await blocks the goroutine that has a request, and ends in exactly one way.
func ExampleDelayedOperationPurgatory_Await() {
	p, _ := purgatory.New[string]("longpoll")
	defer p.Close()

	var posted atomic.Bool
	err := p.Await(context.Background(), time.Millisecond, posted.Load, "news")
	fmt.Println(errors.Is(err, purgatory.ErrExpired))

	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("the client is gone"))
	fmt.Println(p.Await(ctx, time.Minute, posted.Load, "news"))

	posted.Store(true)
	fmt.Println(p.Await(context.Background(), time.Minute, posted.Load, "news"))
	// Output:
	// true
	// the client is gone
	// <nil>
}

// Who waits for a position in a log is tried only when the log has come as far.
func ExampleDelayedOperationPurgatory_CheckAndCompleteUpTo() {
	p, _ := purgatory.New[string]("produce")
	defer p.Close()

	var log replicatedLog
	for _, offset := range []int64{30, 10, 20} {
		d := &delayedProduce{name: fmt.Sprint("offset ", offset), log: &log, required: map[string]int64{"orders-0": offset}}
		_, _ = p.TryCompleteElseWatchAt(d, time.Minute, purgatory.At[string]{Key: "orders-0", Position: offset})
	}
	log.advance("orders-0", 25)
	fmt.Println("completed:", p.CheckAndCompleteUpTo("orders-0", 25))
	fmt.Println("tried:", p.Stats().Checks)
	_ = p.Close()
	// Output:
	// offset 10: satisfied
	// offset 20: satisfied
	// completed: 2
	// tried: 2
	// offset 30: closed
}

// A session lives as long as its heartbeats come, and expires once.
func ExampleDelayedOperationPurgatory_Extend() {
	clock, _ := timer.NewManualTimer()
	p, _ := purgatory.New[string]("sessions", purgatory.WithTimer(clock))
	defer p.Close()

	session := &fetch{name: "session", news: new(atomic.Bool)}
	_, _ = p.TryCompleteElseWatch(session, 10*time.Second, "member-7")
	for range 1000 {
		p.AdvanceClock(9 * time.Second)
		p.Extend(session, 10*time.Second) // a heartbeat
	}
	fmt.Println("after", clock.Now(), session.Outcome())
	p.AdvanceClock(10 * time.Second)
	fmt.Println("in time:", p.Extend(session, 10*time.Second))
	// Output:
	// after 2h30m0s pending
	// session expired
	// in time: false
}
