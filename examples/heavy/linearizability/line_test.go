package linearizability

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/timer"
)

// kind is what a stock is.
type kind string

const (
	queue     kind = "queue"
	semaphore kind = "semaphore"
	pool      kind = "pool" // a queue of items that come back
)

// game is one history of a stock: some goroutines, a few calls each. Its clock counts the
// beginnings and ends of calls, so that histories can be played inside a bubble, where time stands
// still.
type game struct {
	*stock
	random *rand.Rand // of the goroutine that makes the game
	kind   kind
	fifo   bool // with WithFirstInFirstOut
	group  sync.WaitGroup

	mu      sync.Mutex
	now     int64                 // guarded by mu
	over    bool                  // guarded by mu
	history []porcupine.Operation // guarded by mu
	waits   []*waiter             // guarded by mu
	items   byte                  // guarded by mu: how many were put
}

// waiter is one who waits, or has waited.
type waiter struct {
	event
	from   int64
	joined int64 // when the call that joins the line returned, 0 before
	leave  func()
}

// keys returns the keys for which w waits: the one for which all do, and one of its own. With the
// second one it is the first in a line. So it is tried out of turn, and there is none where the
// order matters.
func (g *game) keys(w *waiter) []int {
	if g.fifo {
		return []int{everybody}
	}
	return []int{everybody, 1 + int(w.who)}
}

func (g *game) tick() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now++
	return g.now
}

// record records a step that began at from and is over now.
func (g *game) record(from int64, e event, r result) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.over {
		return
	}
	g.now++
	g.history = append(g.history, porcupine.Operation{ClientId: int(e.who), Input: e, Output: r, Call: from, Return: g.now})
}

// crowded reports whether as many have begun to wait as a history may have: each may have come
// first, and Porcupine tries all orders.
func (g *game) crowded() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.waits) >= 6
}

// newWaiter returns one who is about to wait.
func (g *game) newWaiter(random *rand.Rand) *waiter {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now++
	w := &waiter{event: event{who: byte(len(g.waits))}, from: g.now}
	if g.kind == semaphore {
		w.want = 1 + random.IntN(3)
	}
	g.waits = append(g.waits, w)
	return w
}

func (g *game) join(w *waiter) {
	g.record(w.from, event{step: join, who: w.who, want: w.want}, result{})
	joined := g.tick()
	g.mu.Lock()
	defer g.mu.Unlock()
	w.joined = joined
}

// end records the end of a wait. Without WithFirstInFirstOut one who is being registered may
// overtake others.
func (g *game) end(w *waiter, took bool, item byte) {
	g.mu.Lock()
	e := event{step: end, who: w.who, want: w.want, late: w.late, overtakes: !g.fifo && w.joined == 0}
	g.mu.Unlock()
	g.record(w.from, e, result{took: took, item: item})
}

// add adds an item, or gives units back.
func (g *game) add(random *rand.Rand) {
	signal := random.IntN(3) == 0
	if g.kind == semaphore {
		n, from := 1+random.IntN(4), g.tick()
		g.give(n, signal)
		g.record(from, event{step: give, n: n}, result{})
		return
	}
	g.mu.Lock()
	g.items++
	item := g.items
	g.mu.Unlock()
	g.putBack(item, signal)
}

func (g *game) putBack(item byte, signal bool) {
	from := g.tick()
	g.put(item, signal)
	g.record(from, event{step: put, item: item}, result{})
}

// submit waits without a goroutine.
func (g *game) submit(random *rand.Rand) {
	w := g.newWaiter(random)
	c := &claim{stock: g.stock, want: w.want}
	c.ended = func(c *claim) {
		g.end(w, c.took, c.item)
		if c.took && g.kind == pool {
			g.group.Go(func() { g.putBack(c.item, true) })
		}
	}
	g.mu.Lock()
	keys := g.keys(w)
	if w.leave = func() { g.p.Cancel(c, nil) }; len(keys) == 2 && random.IntN(2) == 0 {
		w.leave = func() { g.p.CancelForKey(keys[1], nil) }
	}
	g.mu.Unlock()
	_, err := g.p.TryCompleteElseWatch(c, aTimeout(random), keys...)
	if errors.Is(err, purgatory.ErrClosed) {
		g.end(w, c.took, c.item)
		if c.took { // it was refused with what it had taken
			defer g.back(w, c.item)
		}
	}
	g.join(w)
}

// back gives back what w has taken.
func (g *game) back(w *waiter, item byte) {
	if w.want == 0 {
		g.putBack(item, false)
		return
	}
	from := g.tick()
	g.give(w.want, false)
	g.record(from, event{step: give, n: w.want}, result{})
}

// block waits on a goroutine of its own.
func (g *game) block(random *rand.Rand) {
	w, timeout := g.newWaiter(random), aTimeout(random)
	ctx, cancel := context.WithCancel(context.Background())
	leave := func() {
		from := g.tick()
		cancel()
		g.record(from, event{step: gone, who: w.who}, result{})
	}
	g.mu.Lock()
	w.leave = leave
	g.mu.Unlock()
	switch yields := random.IntN(40); {
	case yields < 4: // before it begins
		leave()
	case yields < 12:
		g.group.Go(func() {
			for range yields {
				runtime.Gosched()
			}
			leave()
		})
	}
	g.group.Go(func() {
		defer cancel()
		item, late, err := g.await(ctx, timeout, w.want, g.keys(w))
		w.late = late
		g.end(w, err == nil, item)
		g.join(w)
		if err == nil && g.kind == pool {
			g.putBack(item, false)
		}
	})
}

// aTimeout is mostly one that does not pass.
func aTimeout(random *rand.Rand) time.Duration {
	return []time.Duration{time.Hour, time.Hour, time.Hour, timeout, 2 * timeout, 0}[random.IntN(6)]
}

// client makes some calls.
func (g *game) client(random *rand.Rand, calls int) {
	for range calls {
		switch random.IntN(40) {
		case 0:
			_ = g.p.Close()
		case 1:
			ended, cancel := context.WithCancel(context.Background())
			cancel()
			_ = g.p.Shutdown(ended)
		case 2, 3, 4:
			g.p.AdvanceClock(timeout)
		case 5, 6, 7, 8, 9, 10, 11:
			g.mu.Lock()
			leave := func() {}
			if n := len(g.waits); n > 0 && g.waits[n-1].leave != nil {
				leave = g.waits[n-1-random.IntN(min(n, 4))].leave
			}
			g.mu.Unlock()
			if leave != nil {
				leave()
				if random.IntN(2) == 0 { // before the one that has left can have run
					g.add(random)
				}
			}
		default:
			switch n := random.IntN(8); {
			case n < 4 || g.crowded():
				g.add(random)
			case n < 6:
				g.block(random)
			default:
				g.submit(random)
			}
		}
	}
}

// playLine makes one history, inside a bubble. When nothing is under way any more, it records what
// is left, and who waits still.
func (g *game) playLine(t *testing.T, units int) []porcupine.Operation {
	clock, err := timer.NewManualTimer()
	if err != nil {
		t.Fatal(err)
	}
	opts := []purgatory.Option{purgatory.WithTimer(clock), purgatory.WithSignalWorkers(1 + g.random.IntN(2))}
	if g.fifo && g.mistake != overtaken {
		opts = append(opts, purgatory.WithFirstInFirstOut())
	}
	p, err := purgatory.New[int]("line", opts...)
	if err != nil {
		t.Fatal(err)
	}
	g.p, g.units = p, units
	if g.kind == pool {
		g.add(g.random)
	}
	var clients sync.WaitGroup
	begin := make(chan struct{})
	for range 2 + g.random.IntN(3) {
		calls, random := 2+g.random.IntN(4), rand.New(rand.NewPCG(g.random.Uint64(), 0))
		clients.Go(func() {
			<-begin
			g.client(random, calls)
		})
	}
	close(begin)
	clients.Wait()
	p.AdvanceClock(0) // ends those with a timeout of 0, which are tried once
	synctest.Wait()
	g.rest()
	_ = p.Close()
	g.group.Wait()
	if err := p.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	return g.history
}

// rest is called when all goroutines are blocked.
func (g *game) rest() {
	for _, w := range g.waits {
		if w.joined == 0 {
			g.join(w)
		}
	}
	g.stock.mu.Lock()
	left := result{items: string(g.stock.items), units: g.units}
	g.stock.mu.Unlock()
	g.record(g.tick(), event{step: idle}, left)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.over = true
}

// mostCrossed is in how many histories a wait may take something that came after its context had ended: it may end
// between the look at it and the call of the condition, some nanoseconds. Where who has left is tried, some
// 50 histories of 5,000 are such ones.
const mostCrossed = 2

// mostUnjudged is in how many histories there may be too many orders to try: where many calls overlap for long
// on a busy machine, in about one of 100,000.
const mostUnjudged = 3

// judgeLines plays histories, and returns the first that is not linearizable, if there is one.
func judgeLines(t *testing.T, histories int, seed uint64, k kind, fifo bool, m mistake) (bad []porcupine.Operation) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 0))
	crossed, unjudged := 0, 0
	const batch = 100
	for done := 0; done < histories; done += batch {
		var played [][]porcupine.Operation
		var units []int
		synctest.Test(t, func(t *testing.T) {
			for range batch {
				n := 0
				if k == semaphore {
					n = random.IntN(4)
				}
				g := &game{stock: &stock{mistake: m}, random: random, kind: k, fifo: fifo}
				played, units = append(played, g.playLine(t, n)), append(units, n)
			}
		})
		for i, history := range played {
			verdict := judge(units[i], history)
			if verdict == porcupine.Illegal {
				if crossed++; crossed > mostCrossed {
					return history
				}
				verdict = judge(units[i], whoeverHasLeft(history))
			}
			switch verdict {
			case porcupine.Illegal:
				return history
			case porcupine.Unknown:
				if unjudged++; unjudged > mostUnjudged {
					reportLine(t, history)
					t.Fatalf("there are too many orders in %d histories", unjudged)
				}
			}
		}
	}
	return nil
}

func judge(units int, history []porcupine.Operation) porcupine.CheckResult {
	return porcupine.CheckOperationsTimeout(lineModel(units), history, 10*time.Second)
}

// whoeverHasLeft returns history without the ends of contexts.
func whoeverHasLeft(history []porcupine.Operation) []porcupine.Operation {
	return slices.DeleteFunc(slices.Clone(history), func(o porcupine.Operation) bool { return o.Input.(event).step == gone })
}

// A mistake, see TestAMistakeIsFound, shows in one of the first 2,000 histories.
func TestLinesAreLinearizable(t *testing.T) {
	histories := 5_000
	if testing.Short() {
		histories = 1_000
	}
	for _, k := range []kind{queue, semaphore, pool} {
		for order, fifo := range map[string]bool{"first in first out": true, "tried at once": false} {
			t.Run(string(k)+", "+order, func(t *testing.T) {
				seed := uint64(time.Now().UnixNano())
				if bad := judgeLines(t, histories, seed, k, fifo, none); bad != nil {
					reportLine(t, bad)
					t.Fatalf("seed %d: not linearizable", seed)
				}
			})
		}
	}
}

func reportLine(t *testing.T, history []porcupine.Operation) {
	t.Helper()
	for _, o := range history {
		t.Logf("%3d to %3d: %s", o.Call, o.Return, lineModel(0).DescribeOperation(o.Input, o.Output))
	}
}

// Histories of queues and semaphores with a mistake show that the model and the histories are not
// blind.
func TestAMistakeIsFound(t *testing.T) {
	for _, k := range []kind{queue, semaphore, pool} {
		mistakes := []mistake{noCheck, checkFirst, dropped, overtaken, twoSteps}
		if k == semaphore {
			mistakes = []mistake{noCheck, checkFirst, dropped, overtaken, tooFew}
		}
		for _, m := range mistakes {
			t.Run(string(k)+", "+string(m), func(t *testing.T) {
				if judgeLines(t, 50_000, 1, k, true, m) == nil {
					t.Error("all histories are linearizable")
				}
			})
		}
	}
}
