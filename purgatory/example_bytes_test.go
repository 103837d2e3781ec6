package purgatory_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/delayedop/purgatory/purgatory"
)

// journal counts the bytes that were ever appended to it, so that a fetch that waits for a number
// of bytes waits for a position, and adds up nothing.
type journal struct {
	mu       sync.Mutex
	records  []string
	appended int64 // bytes, since the beginning

	waiting *purgatory.Purgatory[string]
}

func (j *journal) size() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.appended
}

func (j *journal) appendRecord(record string) {
	j.mu.Lock()
	j.records = append(j.records, record)
	j.appended += int64(len(record))
	size := j.appended
	j.mu.Unlock()
	j.waiting.CheckAndCompleteUpTo("orders-0", size)
}

// fetch waits until at least n bytes are there beyond the position from, and not longer than maxWait.
func (j *journal) fetch(from, n int64, maxWait time.Duration) error {
	enough := func() bool { return j.size() >= from+n }
	return j.waiting.AwaitAt(context.Background(), maxWait, enough, purgatory.KeyPosition[string]{Key: "orders-0", Position: from + n})
}

// A fetch waits for a number of bytes: one comparison, however many records there are.
func ExamplePurgatory_CheckAndCompleteUpTo_bytes() {
	waiting, _ := purgatory.New[string]("fetch")
	j := &journal{waiting: waiting}
	fetched := make(chan error)
	go func() { fetched <- j.fetch(0, 20, time.Minute) }()
	for waiting.NumDelayed() == 0 { // until it waits
		runtime.Gosched()
	}
	for range 3 {
		j.appendRecord("7 bytes")
	}
	fmt.Println("fetched:", <-fetched, "by one try:", waiting.Stats().Checks <= 1) // none if it has just begun to wait
	_ = waiting.Close()
	// Output: fetched: <nil> by one try: true
}
