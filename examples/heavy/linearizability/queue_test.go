package linearizability

import (
	"context"
	"errors"
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
	none       mistake = "none"
	dropped    mistake = "what was taken is dropped"
	overtaken  mistake = "newcomers overtake those who wait"
	tooFew     mistake = "there are fewer units than were put"
	behind     mistake = "what is put back comes last"
	denied     mistake = "Stop says the opposite"
	kept       mistake = "Hand says that nobody has got what it has handed over"
	miscounted mistake = "Stats miss one who was served"
	tooEarly   mistake = "timeouts pass too early"
	tooNarrow  mistake = "one less may wait"
	tooSmall   mistake = "one less may be kept"
	unshared   mistake = "tenants have no shares"
)

// shift is one history of a queue of package queue: some goroutines, a few calls each. Its clock counts the beginnings and
// ends of calls, so that histories can be played inside a bubble, where time stands still.
type shift struct {
	items                *queue.Queue[byte]     // nil: it is a semaphore
	units                *queue.Queue[struct{}] // nil: its items differ
	clock                *timer.ManualTimer
	mistake              mistake
	tenants              int
	maxWaiting, maxItems int // 0: no limit
	group                sync.WaitGroup

	mu      sync.Mutex
	now     int64                 // guarded by mu
	history []porcupine.Operation // guarded by mu
	leaves  []func()              // of those who wait, or have waited; guarded by mu
	made    byte                  // items; guarded by mu
}

var errShut = errors.New("the server goes down")

func fateOf(err error) fate {
	for f, as := range map[fate]error{
		expired: queue.ErrExpired, left: context.Canceled, cancelled: queue.ErrCancelled, full: queue.ErrFull, closed: queue.ErrClosed, cutOff: errShut,
	} {
		if errors.Is(err, as) {
			return f
		}
	}
	if err != nil {
		panic(err)
	}
	return yes
}

func answered(ok bool) fate {
	if ok {
		return yes
	}
	return no
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
func (p *shift) request(random *rand.Rand) (e event, at queue.Place, d time.Duration, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.leaves) == 6 {
		return e, at, d, false
	}
	e = event{step: join, who: byte(len(p.leaves)), of: byte(random.IntN(p.tenants))}
	p.leaves = append(p.leaves, func() {})
	switch random.IntN(4) {
	case 0:
		e.until, d = never, timer.Never
	case 1:
		e.until, d = never, time.Hour
	case 2:
		e.until, d = 1, timeout
		if p.mistake == tooEarly {
			e.until++
		}
	}
	if p.units != nil {
		e.want = 1 + random.IntN(3)
		at.N = e.want
	}
	if at.Cost = 1; p.mistake != unshared {
		at.Tenant = string("abc"[e.of])
	}
	return e, at, d, true
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
	p.record(from, e, result{fate: fateOf(err), item: item})
	if err == nil && from%2 == 0 && (p.units != nil || item%3 == 0) { // its worker has died
		p.back(item, e.want)
	}
}

func (p *shift) back(item byte, n int) {
	from := p.tick()
	var err error
	switch {
	case p.units != nil:
		err = p.units.PutBack(struct{}{}, queue.Place{N: n})
	case p.mistake == behind:
		err = p.items.Put(item)
	default:
		err = p.items.PutBack(item)
	}
	p.record(from, event{step: back, item: item, n: n}, result{fate: fateOf(err)})
}

func (p *shift) take(random *rand.Rand) {
	e, at, d, ok := p.request(random)
	if !ok {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	var once sync.Once
	leave := func() {
		once.Do(func() {
			from := p.tick()
			cancel()
			p.record(from, event{step: gone, who: e.who}, result{})
		})
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
			_, err = p.units.Take(ctx, d, at)
		} else {
			item, err = p.items.Take(ctx, d, at)
		}
		p.record(from, e, result{}) // it has joined at some time
		p.ended(from, e, item, err)
	})
}

// start begins a wait that does not block: with a callback, or with a channel, for which another goroutine waits.
func (p *shift) start(random *rand.Rand) {
	e, at, d, ok := p.request(random)
	if !ok {
		return
	}
	from := p.tick()
	p.group.Add(1)
	looks, yields := random.IntN(3), random.IntN(4) // 0 looks: a callback
	done := func(item byte, err error) {
		for range yields { // others come while the clock stands there, and have those run that are due, too
			runtime.Gosched()
		}
		p.ended(from, e, item, err)
		p.group.Done()
	}
	var err error
	if p.units != nil {
		err = started(p, p.units, from, e, d, at, looks, func(_ struct{}, err error) { done(0, err) })
	} else {
		err = started(p, p.items, from, e, d, at, looks, done)
	}
	if err != nil {
		done(0, err)
	}
}

func started[T any](p *shift, q *queue.Queue[T], from int64, e event, d time.Duration, at queue.Place, looks int, done func(T, error)) error {
	callback := done
	if looks > 0 {
		callback = nil
	}
	w, err := q.Start(d, callback, at)
	p.record(from, e, result{})
	if err != nil {
		return err
	}
	p.leaver(e.who, func() {
		from := p.tick()
		stopped := w.Stop() != (p.mistake == denied)
		p.record(from, event{step: halt, who: e.who}, result{fate: answered(stopped)})
	})
	if looks > 0 {
		go func() {
			if looks == 1 {
				<-w.Done()
			}
			done(w.Result())
		}()
	}
	return nil
}

// add puts an item, or units. Now and then it hands the item, or one unit, only to one that waits.
func (p *shift) add(random *rand.Rand) {
	e := event{step: put}
	if random.IntN(4) == 0 {
		e.step = hand
	}
	if p.units != nil {
		e.n = 1
		if e.step == put {
			e.n += random.IntN(4)
		}
	} else {
		p.mu.Lock()
		p.made++
		e.item = p.made
		p.mu.Unlock()
	}
	from := p.tick()
	handed := true
	var err error
	switch {
	case p.units != nil && e.step == put:
		err = p.units.Put(struct{}{}, queue.Place{N: e.n})
	case p.units != nil:
		handed, err = p.units.Hand(struct{}{})
	case e.step == put:
		err = p.items.Put(e.item)
	default:
		handed, err = p.items.Hand(e.item)
	}
	r := result{fate: fateOf(err)}
	if !handed && err == nil || p.mistake == kept && e.step == hand && handed {
		r.fate = no
	}
	if p.mistake == tooFew {
		e.n++
	}
	p.record(from, e, r)
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

// shutdown is two steps: nobody may come from some time on, and later all have ended.
func (p *shift) shutdown(ctx context.Context) {
	from := p.tick()
	var err error
	if p.units != nil {
		err = p.units.Shutdown(ctx)
	} else {
		err = p.items.Shutdown(ctx)
	}
	p.record(from, event{step: drain}, result{})
	p.record(from, event{step: cut}, result{fate: fateOf(err)})
}

func (p *shift) count() {
	from := p.tick()
	var s queue.Stats
	if p.units != nil {
		s = p.units.Stats()
	} else {
		s = p.items.Stats()
	}
	counted := stats{
		put: int(s.Put), back: int(s.Back), handed: int(s.Handed), refusedUnits: int(s.PutRefused),
		served: int(s.Served), expired: int(s.Expired), left: int(s.Left), refused: int(s.Refused), waiting: s.Waiting, kept: s.Items,
	}
	for i := range counted.of {
		counted.of[i] = s.Tenants[string("abc"[i])].Waiting
	}
	if p.mistake == miscounted && counted.served > 0 {
		counted.served--
	}
	p.record(from, event{step: count}, result{stats: counted})
}

func (p *shift) advance() {
	from := p.tick()
	p.clock.AdvanceClock(timeout)
	p.record(from, event{step: advance}, result{})
}

// client is one of the goroutines. The first moves the clock: of two that do so at once one leaves its way to the other.
func (p *shift) client(random *rand.Rand, first bool, calls int) {
	for range calls {
		switch n := random.IntN(40); {
		case n == 0:
			p.shut()
		case n == 1:
			if random.IntN(2) == 0 {
				p.group.Go(func() { p.shutdown(context.Background()) })
				break
			}
			ended, cancel := context.WithCancelCause(context.Background())
			cancel(errShut)
			p.shutdown(ended)
		case n < 5 && first:
			p.advance()
		case n < 5:
			p.count()
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

// playQueue makes one history, inside a bubble, and its model. When nothing is under way any more, it records what is left.
func playQueue(t *testing.T, random *rand.Rand, weights bool, m mistake) ([]porcupine.Operation, porcupine.Model) {
	clock, err := timer.NewManualTimer(timer.WithTick(timeout)) // so the clock goes on in one step
	if err != nil {
		t.Fatal(err)
	}
	p := &shift{clock: clock, mistake: m, tenants: 1 + random.IntN(3)}
	options := []queue.Option{queue.WithTimer(clock)}
	if m == overtaken {
		options = append(options, queue.WithNewestFirst(true, false))
	}
	if m == tooNarrow || random.IntN(2) == 0 {
		p.maxWaiting = 1 + random.IntN(4)
		options = append(options, queue.WithMaxWaiting(p.maxWaiting))
	}
	if m == tooSmall || random.IntN(2) == 0 {
		if p.maxItems = 1 + random.IntN(3); weights {
			p.maxItems += 3 // as many as one may want, and more
		}
		options = append(options, queue.WithMaxItems(p.maxItems))
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
	for id := range 2 + random.IntN(3) {
		calls, random := 2+random.IntN(4), rand.New(rand.NewPCG(random.Uint64(), 0))
		clients.Go(func() {
			<-begin
			p.client(random, id == 0, calls)
		})
	}
	close(begin)
	clients.Wait()
	synctest.Wait()
	p.record(p.tick(), event{step: calm}, result{})
	p.count()
	p.shut()
	p.advance() // for callbacks
	p.group.Wait()
	p.record(p.tick(), event{step: over}, result{})
	p.count()
	if m == tooNarrow {
		p.maxWaiting++
	}
	if m == tooSmall {
		p.maxItems++
	}
	return p.history, lineModel(p.maxWaiting, p.maxItems)
}

// judgeQueues plays histories, and returns the first that is not linearizable, if there is one, in words.
func judgeQueues(t *testing.T, histories int, seed uint64, weights bool, m mistake) (bad []porcupine.Operation, model porcupine.Model) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 0))
	const batch, mostUnjudged = 100, 3
	unjudged := 0
	for done := 0; done < histories; done += batch {
		var played [batch][]porcupine.Operation
		var models [batch]porcupine.Model
		synctest.Test(t, func(t *testing.T) {
			for i := range played {
				played[i], models[i] = playQueue(t, random, weights, m)
			}
		})
		for i, history := range played {
			switch porcupine.CheckOperationsTimeout(models[i], history, 10*time.Second) {
			case porcupine.Illegal:
				return history, models[i]
			case porcupine.Unknown: // where many calls overlap for long on a busy machine
				if unjudged++; unjudged > mostUnjudged {
					t.Fatalf("there are too many orders in %d histories", unjudged)
				}
			}
		}
	}
	return nil, model
}

func TestQueuesAreLinearizable(t *testing.T) {
	histories := 10_000
	if testing.Short() {
		histories = 2_000
	}
	for name, weights := range map[string]bool{"items": false, "units": true} {
		t.Run(name, func(t *testing.T) {
			seed := uint64(time.Now().UnixNano())
			if bad, model := judgeQueues(t, histories, seed, weights, none); bad != nil {
				for _, o := range bad {
					t.Logf("%3d to %3d: %s", o.Call, o.Return, model.DescribeOperation(o.Input, o.Output))
				}
				t.Fatalf("seed %d: not linearizable", seed)
			}
		})
	}
}

// Histories of queues with a mistake show that neither the model nor the histories are blind.
func TestAMistakeOfAQueueIsFound(t *testing.T) {
	for _, m := range []mistake{dropped, overtaken, behind, tooFew, denied, kept, miscounted, tooEarly, tooNarrow, tooSmall, unshared} {
		t.Run(string(m), func(t *testing.T) {
			if bad, _ := judgeQueues(t, 20_000, 1, m == tooFew, m); bad == nil {
				t.Error("all histories are linearizable")
			}
		})
	}
}
