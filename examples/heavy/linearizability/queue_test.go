package linearizability

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/delayedop/purgatory/queue"
	"github.com/delayedop/purgatory/timer"
)

// mistake is what a history can have.
type mistake string

const (
	none      mistake = "none"
	dropped   mistake = "what was taken is dropped"
	overtaken mistake = "newcomers overtake those who wait"
	tooFew    mistake = "there are fewer units than were put"
	behind    mistake = "what is put back comes last"
	unshared  mistake = "tenants have no shares"
)

// shift is one history of a queue of package queue: some goroutines, a few calls each. Its clock counts the beginnings and
// ends of calls, so that histories can be played inside a bubble, where time stands still.
type shift struct {
	items   *queue.Queue[byte]     // nil: it is a semaphore
	units   *queue.Queue[struct{}] // nil: its items differ
	clock   *timer.ManualTimer
	mistake mistake
	tenants int
	group   sync.WaitGroup

	mu      sync.Mutex
	now     int64                 // guarded by mu
	history []porcupine.Operation // guarded by mu
	leaves  []func()              // of those who wait, or have waited; guarded by mu
	made    byte                  // items; guarded by mu
}

func (p *shift) tick() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now++
	return p.now
}

func (p *shift) record(from int64, e event, r result) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now++
	p.history = append(p.history, porcupine.Operation{ClientId: int(e.who), Input: e, Output: r, Call: from, Return: p.now})
}

// request is one that is about to wait; ok is false if there are as many as a history may have: each may have come first, and
// Porcupine tries all orders.
func (p *shift) request(random *rand.Rand) (e event, at queue.Place, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.leaves) == 6 {
		return e, at, false
	}
	e = event{step: join, who: byte(len(p.leaves)), of: byte(random.IntN(p.tenants))}
	p.leaves = append(p.leaves, func() {})
	if p.units != nil {
		e.want = 1 + random.IntN(3)
		at.N = e.want
	}
	if at.Cost = 1; p.mistake != unshared {
		at.Tenant = string("abc"[e.of])
	}
	return e, at, true
}

func (p *shift) leaver(who byte, leave func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leaves[who] = leave
}

// ended records that a request has ended at some time since from.
func (p *shift) ended(from int64, e event, item byte, err error) {
	e.step = end
	if p.mistake == dropped && err == nil && item%2 == 1 {
		err = context.Canceled
	}
	p.record(from, e, result{took: err == nil, item: item})
	if err == nil && p.items != nil && item%3 == 0 && from%2 == 0 { // its worker has died
		p.back(item)
	}
}

func (p *shift) back(item byte) {
	from := p.tick()
	give := p.items.PutBack
	if p.mistake == behind {
		give = p.items.Put
	}
	if give(item) == nil {
		p.record(from, event{step: back, item: item}, result{})
	}
}

func (p *shift) take(random *rand.Rand) {
	e, at, ok := p.request(random)
	if !ok {
		return
	}
	timeout := []time.Duration{timer.Never, time.Hour, timeout, 0}[random.IntN(4)]
	ctx, cancel := context.WithCancel(context.Background())
	leave := func() {
		from := p.tick()
		cancel()
		p.record(from, event{step: gone, who: e.who}, result{})
	}
	p.leaver(e.who, leave)
	switch yields := random.IntN(40); {
	case yields < 4: // before it begins
		leave()
	case yields < 12:
		p.group.Go(func() {
			for range yields {
				runtime.Gosched()
			}
			leave()
		})
	}
	from := p.tick()
	p.group.Go(func() {
		defer cancel()
		var item byte
		var err error
		if p.units != nil {
			_, err = p.units.Take(ctx, timeout, at)
		} else {
			item, err = p.items.Take(ctx, timeout, at)
		}
		p.record(from, e, result{}) // it has joined at some time
		p.ended(from, e, item, err)
	})
}

func (p *shift) start(random *rand.Rand) {
	e, at, ok := p.request(random)
	if !ok {
		return
	}
	from := p.tick()
	p.group.Add(1)
	done := func(item byte, err error) {
		p.ended(from, e, item, err)
		p.group.Done()
	}
	timeout := []time.Duration{timer.Never, timeout}[random.IntN(2)]
	var err error
	if p.units != nil {
		var w *queue.Waiter[struct{}]
		if w, err = p.units.Start(timeout, func(_ struct{}, err error) { done(0, err) }, at); err == nil {
			p.leaver(e.who, func() { w.Stop() })
		}
	} else {
		var w *queue.Waiter[byte]
		if w, err = p.items.Start(timeout, done, at); err == nil {
			p.leaver(e.who, func() { w.Stop() })
		}
	}
	p.record(from, e, result{})
	if err != nil {
		done(0, err)
	}
}

// add puts an item, or units. Now and then it hands the item only to one that waits.
func (p *shift) add(random *rand.Rand) {
	if p.units != nil {
		n, from := 1+random.IntN(4), p.tick()
		if p.units.Put(struct{}{}, queue.Place{N: n}) == nil {
			if p.mistake == tooFew {
				n--
			}
			p.record(from, event{step: give, n: n}, result{})
		}
		return
	}
	p.mu.Lock()
	p.made++
	item := p.made
	p.mu.Unlock()
	from := p.tick()
	var given bool
	if random.IntN(4) == 0 {
		handed, err := p.items.Hand(item)
		given = handed && err == nil
	} else {
		given = p.items.Put(item) == nil
	}
	if given {
		p.record(from, event{step: put, item: item}, result{})
	}
}

func (p *shift) shut() {
	from := p.tick()
	r := result{}
	if p.units != nil {
		r.units = len(p.units.Close(nil))
	} else {
		r.items = string(p.items.Close(nil))
	}
	p.record(from, event{step: shut}, r)
}

func (p *shift) client(random *rand.Rand, calls int) {
	for range calls {
		switch n := random.IntN(40); {
		case n == 0:
			p.shut()
		case n == 1:
			ended, cancel := context.WithCancel(context.Background())
			cancel()
			if p.units != nil {
				_ = p.units.Shutdown(ended)
			} else {
				_ = p.items.Shutdown(ended)
			}
		case n < 5:
			p.clock.AdvanceClock(timeout)
		case n < 12:
			p.mu.Lock()
			leave := func() {}
			if n := len(p.leaves); n > 0 {
				leave = p.leaves[random.IntN(n)]
			}
			p.mu.Unlock()
			if leave(); random.IntN(2) == 0 { // before the one that has left can have run
				p.add(random)
			}
		case n < 26:
			p.add(random)
		case n < 34:
			p.take(random)
		default:
			p.start(random)
		}
	}
}

// playQueue makes one history, inside a bubble. When nothing is under way any more, it records what is left.
func playQueue(t *testing.T, random *rand.Rand, weights bool, m mistake) []porcupine.Operation {
	clock, err := timer.NewManualTimer()
	if err != nil {
		t.Fatal(err)
	}
	p := &shift{clock: clock, mistake: m, tenants: 1 + random.IntN(3)}
	options := []queue.Option{queue.WithTimer(clock)}
	if m == overtaken {
		options = append(options, queue.WithNewestFirst(true, false))
	}
	if weights {
		p.units, err = queue.New[struct{}](options...)
	} else {
		p.items, err = queue.New[byte](options...)
	}
	if err != nil {
		t.Fatal(err)
	}
	var clients sync.WaitGroup
	begin := make(chan struct{})
	for range 2 + random.IntN(3) {
		calls, random := 2+random.IntN(4), rand.New(rand.NewPCG(random.Uint64(), 0))
		clients.Go(func() {
			<-begin
			p.client(random, calls)
		})
	}
	close(begin)
	clients.Wait()
	synctest.Wait()
	p.record(p.tick(), event{step: calm}, result{})
	p.shut()
	clock.AdvanceClock(timeout) // for callbacks
	p.group.Wait()
	return p.history
}

// judgeQueues plays histories, and returns the first that is not linearizable, if there is one.
func judgeQueues(t *testing.T, histories int, seed uint64, weights bool, m mistake) (bad []porcupine.Operation) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 0))
	const batch, mostUnjudged = 100, 3
	unjudged := 0
	for done := 0; done < histories; done += batch {
		var played [][]porcupine.Operation
		synctest.Test(t, func(t *testing.T) {
			for range batch {
				played = append(played, playQueue(t, random, weights, m))
			}
		})
		for _, history := range played {
			switch porcupine.CheckOperationsTimeout(lineModel(), history, 10*time.Second) {
			case porcupine.Illegal:
				return history
			case porcupine.Unknown: // where many calls overlap for long on a busy machine
				if unjudged++; unjudged > mostUnjudged {
					t.Fatalf("there are too many orders in %d histories", unjudged)
				}
			}
		}
	}
	return nil
}

func TestQueuesAreLinearizable(t *testing.T) {
	histories := 10_000
	if testing.Short() {
		histories = 2_000
	}
	for name, weights := range map[string]bool{"items": false, "units": true} {
		t.Run(name, func(t *testing.T) {
			seed := uint64(time.Now().UnixNano())
			if bad := judgeQueues(t, histories, seed, weights, none); bad != nil {
				for _, o := range bad {
					t.Logf("%3d to %3d: %s", o.Call, o.Return, lineModel().DescribeOperation(o.Input, o.Output))
				}
				t.Fatalf("seed %d: not linearizable", seed)
			}
		})
	}
}

// Histories of queues with a mistake show that neither the model nor the histories are blind.
func TestAMistakeOfAQueueIsFound(t *testing.T) {
	for m, weights := range map[mistake]bool{dropped: false, overtaken: false, behind: false, unshared: false, tooFew: true} {
		t.Run(string(m), func(t *testing.T) {
			if judgeQueues(t, 20_000, 1, weights, m) == nil {
				t.Error("all histories are linearizable")
			}
		})
	}
}
