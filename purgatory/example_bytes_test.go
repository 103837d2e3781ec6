package purgatory_test

import (
	"fmt"
	"sync"
	"time"

	"github.com/delayedop/purgatory/operation"
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

// byteFetch waits until there are bytes up to a position.
type byteFetch struct {
	operation.DelayedOperation
	journal *journal
	upTo    int64
	done    chan struct{}
}

func (f *byteFetch) TryComplete() bool { return f.journal.size() >= f.upTo }
func (f *byteFetch) OnComplete()       { close(f.done) }
func (f *byteFetch) OnExpiration()     {}

// fetch starts a wait until at least n bytes are there beyond the position from, and not longer
// than maxWait.
func (j *journal) fetch(from, n int64, maxWait time.Duration) (*byteFetch, error) {
	f := &byteFetch{journal: j, upTo: from + n, done: make(chan struct{})}
	_, err := j.waiting.TryCompleteElseWatchAt(f, maxWait, purgatory.KeyPosition[string]{Key: "orders-0", Position: from + n})
	return f, err
}

// A fetch waits for a number of bytes: one comparison, however many records there are.
func ExampleDelayedOperationPurgatory_CheckAndCompleteUpTo_bytes() {
	waiting, _ := purgatory.New[string]("fetch")
	j := &journal{waiting: waiting}
	fetched, _ := j.fetch(0, 20, time.Minute)
	for range 3 {
		j.appendRecord("7 bytes")
	}
	<-fetched.done
	fmt.Println("fetched:", fetched.Outcome(), "tries:", waiting.Stats().Checks)
	_ = waiting.Close()
	// Output: fetched: satisfied tries: 1
}
