package purgatory_test

import (
	"fmt"
	"sync"
	"time"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// disk has room for a number of megabytes.
type disk struct {
	waiting *purgatory.Purgatory[string]

	mu         sync.Mutex
	size, free int // guarded by mu
}

// acquire refuses at once what can never be met: it would wait in vain, and everybody behind it, too.
func (d *disk) acquire(megabytes int) (*room, error) {
	d.mu.Lock()
	size := d.size
	d.mu.Unlock()
	if megabytes < 1 || megabytes > size {
		return nil, fmt.Errorf("%d MB: a request is for 1 to %d", megabytes, size)
	}
	r := &room{disk: d, megabytes: megabytes, answered: make(chan struct{})}
	_, err := d.waiting.TryCompleteElseWatch(r, time.Minute, "room")
	return r, err
}

// change changes the size and what is free, and then has those who wait tried in order.
func (d *disk) change(size, free int) {
	d.mu.Lock()
	d.size += size
	d.free += free
	d.mu.Unlock()
	d.waiting.CheckAndCompleteInOrder("room")
}

// room waits for megabytes of the disk, and takes them in TryComplete.
type room struct {
	operation.DelayedOperation // the state of the wait
	disk                       *disk
	megabytes                  int
	never                      bool // the disk has become too small
	answered                   chan struct{}
}

// TryComplete says yes, too, when the disk has become too small: the request has its answer then, and does not
// keep the line standing.
func (r *room) TryComplete() bool {
	r.disk.mu.Lock()
	defer r.disk.mu.Unlock()
	if r.never = r.megabytes > r.disk.size; r.never {
		return true
	}
	if r.disk.free < r.megabytes {
		return false
	}
	r.disk.free -= r.megabytes
	return true
}

func (r *room) OnComplete()   { close(r.answered) }
func (r *room) OnExpiration() {}

// say waits for the answer of r, and prints it.
func (r *room) say() {
	<-r.answered
	fmt.Printf("%d MB: %v, never: %v\n", r.megabytes, r.Outcome(), r.never)
}

// A semaphore with weights. Small requests do not overtake a big one. If the big one leaves the
// line, because its time is over or it is cancelled, the purgatory tries those behind it.
func ExampleDelayedOperationPurgatory_CheckAndCompleteInOrder_weights() {
	p, err := purgatory.New[string]("room", purgatory.WithFirstInFirstOut())
	if err != nil {
		panic(err)
	}
	defer p.Close()

	d := &disk{waiting: p, size: 10} // all of it is taken
	first, _ := d.acquire(2)
	big, _ := d.acquire(9)
	_, err = d.acquire(11)
	fmt.Println("refused:", err)
	small, _ := d.acquire(3)
	d.change(0, 6)
	first.say()
	fmt.Println("3 MB waits behind 9 MB:", small.Outcome() == operation.Pending)
	p.Cancel(big, nil) // a worker tries those behind it
	big.say()
	small.say()

	tooBig, _ := d.acquire(8)
	last, _ := d.acquire(1)
	d.change(-3, 0)
	tooBig.say()
	last.say()
	// Output:
	// refused: 11 MB: a request is for 1 to 10
	// 2 MB: satisfied, never: false
	// 3 MB waits behind 9 MB: true
	// 9 MB: cancelled, never: false
	// 3 MB: satisfied, never: false
	// 8 MB: satisfied, never: true
	// 1 MB: satisfied, never: false
}
