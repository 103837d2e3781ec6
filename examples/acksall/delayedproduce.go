package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/delayedop/purgatory/operation"
)

// delayedProduce is a produce with acks=all that waits until every in-sync replica has its records. It is watched under each
// partition that it touched.
type delayedProduce struct {
	operation.DelayedOperation

	id       int64
	deadline time.Time
	offsets  []int64
	answer   func(produceResponse) // never blocks: callbacks run on the goroutine that brought the news
	late     func(time.Duration)   // takes note of how late a timeout was answered

	waiting []appended // the records that are not yet known to be replicated; TryComplete crosses them off
	code    code
	ended   time.Time
}

// TryComplete crosses off what has been replicated, and says yes when nothing is left, or when a partition ends the wait.
// It is never run twice at once, so the fields need no lock.
func (d *delayedProduce) TryComplete() bool {
	d.waiting = slices.DeleteFunc(d.waiting, func(at appended) bool {
		if d.code != none {
			return false
		}
		c, ended := at.replica.verdict(at)
		d.code = c
		return ended
	})
	return len(d.waiting) == 0 || d.code != none
}

// OnComplete answers the producer.
func (d *delayedProduce) OnComplete() {
	d.ended = time.Now()
	r := produceResponse{ID: d.id}
	switch d.Outcome() {
	case operation.Satisfied:
		r.Code = d.code
	case operation.Expired:
		r.Code = requestTimedOut
	case operation.Cancelled:
		r.Code = codeOf(d.Cause())
	default:
		r.Code = shuttingDown
	}
	if r.Code == none {
		r.Offsets = d.offsets
	}
	d.answer(r)
}

// OnExpiration runs after OnComplete, only when the timeout answered the produce.
func (d *delayedProduce) OnExpiration() {
	d.late(d.ended.Sub(d.deadline))
}

// String is what the debug page shows of a waiting produce. No other method runs meanwhile.
func (d *delayedProduce) String() string {
	left := make([]string, len(d.waiting))
	for i, at := range d.waiting {
		left[i] = fmt.Sprintf("%v offset %d", at.replica.id, at.offset)
	}
	return fmt.Sprintf("produce %d waits for %s", d.id, strings.Join(left, ", "))
}
