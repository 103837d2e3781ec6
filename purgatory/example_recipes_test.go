package purgatory_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/timer"
	"github.com/delayedop/purgatory/watermark"
)

// lease ends when it is not renewed, and at the end of its longest life whatever renews it.
type lease struct {
	operation.DelayedOperation
	until time.Duration // on the purgatory's clock
}

func (l *lease) TryComplete() bool { return false }
func (l *lease) OnComplete()       { fmt.Println("lease", l.Outcome()) }
func (l *lease) OnExpiration()     {}

// renew moves the deadline of a lease, but not beyond its longest life.
func renew(p *purgatory.Purgatory[string], l *lease, d time.Duration) bool {
	return p.Extend(l, min(d, l.until-p.Timer().Now()))
}

// Renewals have a cap: a client that renews for ever does not keep its lease for ever.
func Example_cappedRenewals() {
	clock, _ := timer.NewManualTimer()
	p := purgatory.Must(purgatory.New[string]("leases", purgatory.WithTimer(clock)))
	defer p.Close()

	l := &lease{until: clock.Now() + time.Minute}
	_, _ = p.TryCompleteElseWatch(l, 10*time.Second, "client-7")
	for l.Outcome() == operation.Pending {
		p.AdvanceClock(9 * time.Second)
		renew(p, l, 10*time.Second)
	}
	fmt.Println("after", clock.Now())
	// Output:
	// lease expired
	// after 1m3s
}

// throttledFetch waits for data, and then for its client's share of the bandwidth. That it may go on at some time is
// no change of the log: so it waits under a key of its own, too, which it has checked then.
type throttledFetch struct {
	operation.DelayedOperation
	id    string
	end   *atomic.Int64
	later func(d time.Duration, key string) // checks a key after a while
	asked bool
}

func (f *throttledFetch) TryComplete() bool {
	if f.end.Load() == 0 {
		return false
	}
	if !f.asked {
		f.asked = true
		fmt.Println("there is data: not yet, try me again in a second")
		f.later(time.Second, f.id)
		return false
	}
	return true
}

func (f *throttledFetch) OnComplete()   { fmt.Println("fetch", f.Outcome()) }
func (f *throttledFetch) OnExpiration() {}

// "Not yet, try me again" is a no, and a check of a key of one's own later.
func Example_tryMeAgain() {
	clock, _ := timer.NewManualTimer()
	p := purgatory.Must(purgatory.New[string]("fetch", purgatory.WithTimer(clock)))
	defer p.Close()

	later := func(d time.Duration, key string) {
		_, _ = clock.AfterFunc(d, func() { p.CheckAndComplete(key) })
	}
	var end atomic.Int64
	_, _ = p.TryCompleteElseWatch(&throttledFetch{id: "fetch-1", end: &end, later: later}, time.Minute, "orders-0", "fetch-1")
	end.Store(1)
	p.CheckAndComplete("orders-0")
	p.AdvanceClock(time.Second)
	// Output:
	// there is data: not yet, try me again in a second
	// fetch satisfied
}

// response is an answer of some megabytes, which its OnComplete writes to a slow client.
type response struct {
	operation.DelayedOperation
	ready   bool
	written func()
}

func (r *response) TryComplete() bool { return r.ready }
func (r *response) OnComplete()       { r.written() }
func (r *response) OnExpiration()     {}

// With WithPlaceKept the bound counts responses until they have been written, and so bounds the memory.
func ExampleWithPlaceKept() {
	p := purgatory.Must(purgatory.New[string]("responses", purgatory.WithMaxPending(1), purgatory.WithPlaceKept()))
	defer p.Close()

	another := func() error {
		_, err := p.TryCompleteElseWatch(&response{written: func() {}}, time.Minute, "orders-0")
		return err
	}
	r := &response{written: func() { fmt.Println("while it is written, full:", errors.Is(another(), purgatory.ErrFull)) }}
	_, _ = p.TryCompleteElseWatch(r, time.Minute, "orders-0")
	r.ready = true
	p.CheckAndComplete("orders-0")
	fmt.Println("afterwards:", another())
	// Output:
	// while it is written, full: true
	// afterwards: <nil>
}

// Read your writes: a replica answers a read when it has applied what the client has written, or says that it is behind.
func Example_readYourWrites() {
	p := purgatory.Must(purgatory.New[string]("reads"))
	defer p.Close()
	applied := watermark.New(p, "applied", 41)

	read := func(ctx context.Context, written int64) (status int) {
		switch err := applied.Await(ctx, 10*time.Millisecond, written); {
		case err == nil:
			return http.StatusOK
		case errors.Is(err, purgatory.ErrExpired):
			return http.StatusGatewayTimeout // not known in time: the client asks again, perhaps another replica
		default:
			return http.StatusServiceUnavailable
		}
	}
	fmt.Println(read(context.Background(), 41), read(context.Background(), 42))
	applied.Advance(42)
	fmt.Println(read(context.Background(), 42))
	// Output:
	// 200 504
	// 200
}

// A request that waits for its partition and for its connection ends when either has news.
func Example_severalKeys() {
	p := purgatory.Must(purgatory.New[string]("fetch"))
	defer p.Close()

	var available atomic.Int64
	for range 2 {
		_, _ = p.TryCompleteElseWatch(&delayedFetch{available: &available, minBytes: 1}, time.Minute, "orders-0", "connection 7")
	}
	fmt.Println(p.CancelForKey("connection 7", errors.New("it has hung up")), "cancelled,", p.Waiting("orders-0"), "left")
	// Output:
	// cancelled with 0 bytes
	// cancelled with 0 bytes
	// 2 cancelled, 0 left
}
