package purgatory_test

import (
	"fmt"
	"time"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// disk has room for a number of megabytes. Production code guards free with a mutex.
type disk struct {
	waiting    *purgatory.DelayedOperationPurgatory[string]
	size, free int
}

// acquire refuses at once what can never be met: it would wait in vain, and everybody behind it, too.
func (d *disk) acquire(r *room) error {
	if r.megabytes < 1 || r.megabytes > d.size {
		return fmt.Errorf("%d MB: a request is for 1 to %d", r.megabytes, d.size)
	}
	_, err := d.waiting.TryCompleteElseWatch(r, time.Minute, "room")
	return err
}

func (d *disk) release(megabytes int) {
	d.free += megabytes
	d.waiting.CheckAndCompleteInOrder("room")
}

// room waits for megabytes of the disk, and takes them in TryComplete.
type room struct {
	operation.DelayedOperation // the state of the wait
	disk                       *disk
	megabytes                  int
}

func (r *room) TryComplete() bool {
	if r.disk.free < r.megabytes {
		return false
	}
	r.disk.free -= r.megabytes
	return true
}

func (r *room) OnComplete() {
	fmt.Printf("%d MB: %v\n", r.megabytes, r.Outcome())
	if r.Outcome() != operation.Satisfied { // it may have been the first in line: those behind it may fit
		r.disk.waiting.CheckAndCompleteInOrder("room")
	}
}

func (r *room) OnExpiration() {}

// A semaphore with weights. Small requests do not overtake a big one. If the big one leaves the
// line, it has those behind it tried.
func ExampleDelayedOperationPurgatory_CheckAndCompleteInOrder_weights() {
	p, err := purgatory.New[string]("room", purgatory.WithFirstInFirstOut())
	if err != nil {
		panic(err)
	}
	defer p.Close()

	d := &disk{waiting: p, size: 10} // all of it is taken
	requests := []*room{{disk: d, megabytes: 2}, {disk: d, megabytes: 9}, {disk: d, megabytes: 11}, {disk: d, megabytes: 3}}
	for _, r := range requests {
		if err := d.acquire(r); err != nil {
			fmt.Println("refused:", err)
		}
	}
	d.release(6)
	fmt.Println("free:", d.free)
	p.Cancel(requests[1], nil)
	fmt.Println("free:", d.free)
	// Output:
	// refused: 11 MB: a request is for 1 to 10
	// 2 MB: satisfied
	// free: 4
	// 9 MB: cancelled
	// 3 MB: satisfied
	// free: 1
}
