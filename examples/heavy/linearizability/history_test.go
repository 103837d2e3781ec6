package linearizability

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/timer"
)

const timeout = time.Second

// watched is an operation that takes its time for a look, so that others meet it.
type watched struct {
	operation.DelayedOperation
	met    atomic.Bool
	yields int
}

func (o *watched) TryComplete() bool {
	met := o.met.Load()
	for range o.yields {
		runtime.Gosched()
	}
	return met
}
func (o *watched) OnComplete()   {}
func (o *watched) OnExpiration() {}

// recorder records calls of one client.
type recorder struct {
	client  int
	began   time.Time
	clock   *timer.ManualTimer
	history []porcupine.Operation
}

func (r *recorder) record(c call, do func() answer) {
	from, at := r.now(), time.Since(r.began)
	a := do()
	a.from, a.to = from, r.now()
	r.history = append(r.history, porcupine.Operation{
		ClientId: r.client, Input: c, Output: a, Call: int64(at), Return: int64(time.Since(r.began)),
	})
}

// now returns the clock in timeouts, rounded up: on its way it stops between them.
func (r *recorder) now() int8 { return int8((r.clock.Now() + timeout - 1) / timeout) }

// play makes one history: some goroutines, a few calls each, on a few operations.
func play(t *testing.T, random *rand.Rand) []porcupine.Operation {
	t.Helper()
	clock, err := timer.NewManualTimer()
	if err != nil {
		t.Fatal(err)
	}
	p, err := purgatory.New[int]("histories", purgatory.WithTimer(clock))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	ops := make([]*watched, 1+random.IntN(2))
	for i := range ops {
		ops[i] = &watched{yields: random.IntN(4)}
	}
	clients := make([]*recorder, 2+random.IntN(3))
	began := time.Now()
	begin := make(chan struct{})
	var group sync.WaitGroup
	for id := range clients {
		r := &recorder{client: id, began: began, clock: clock}
		clients[id] = r
		var script []call
		for range 2 + random.IntN(4) {
			script = append(script, call{random.IntN(len(ops)), anyOf(random, id)})
		}
		if id < len(ops) { // the operation's owner begins
			script = append([]call{{id, register}}, script...)
		}
		group.Go(func() {
			<-begin
			for _, c := range script {
				if c.verb == expire {
					r.advance(p, expire, timeout, len(ops))
					continue
				}
				r.record(c, func() answer { return perform(p, ops[c.op], c) })
			}
		})
	}
	close(begin)
	group.Wait()
	last := &recorder{client: len(clients), began: began, clock: clock}
	last.advance(p, settle, 0, len(ops))
	for i, o := range ops {
		last.record(call{i, rest}, func() answer { return answer{outcome: o.Outcome()} })
	}
	history := last.history
	for _, r := range clients {
		history = append(history, r.history...)
	}
	return history
}

// anyOf returns a verb for a client. Only the first moves the clock: of two that do so
// at once one leaves its way to the other.
func anyOf(random *rand.Rand, client int) verb {
	verbs := []verb{set, check, check, check, force, cancel, extend, look, set, expire}
	if client > 0 {
		verbs = verbs[:len(verbs)-1]
	}
	return verbs[random.IntN(len(verbs))]
}

// advance is one call for all operations: it is recorded for each.
func (r *recorder) advance(p *purgatory.Purgatory[int], v verb, d time.Duration, ops int) {
	at := time.Since(r.began)
	p.AdvanceClock(d)
	for op := range ops {
		r.history = append(r.history, porcupine.Operation{
			ClientId: r.client, Input: call{op, v}, Output: answer{}, Call: int64(at), Return: int64(time.Since(r.began)),
		})
	}
}

func perform(p *purgatory.Purgatory[int], o *watched, c call) (a answer) {
	first, second := 2*c.op, 2*c.op+1 // its keys, nobody else's
	switch c.verb {
	case set:
		o.met.Store(true)
	case register:
		completed, err := p.TryCompleteElseWatch(o, timeout, first, second)
		if err != nil {
			panic(err)
		}
		a.yes = completed
	case check:
		a.yes = p.CheckAndComplete(first+int(rand.Uint32()&1)) == 1
	case force:
		a.yes = p.ForceComplete(o)
	case cancel:
		a.yes = p.Cancel(o, errNoMore)
	case extend:
		a.yes = p.Extend(o, timeout)
	case look:
		a.outcome = o.Outcome()
	}
	return a
}

var errNoMore = errors.New("no more")

func TestHistoriesAreLinearizable(t *testing.T) {
	histories := 20_000
	if testing.Short() {
		histories = 2_000
	}
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	m := model()
	calls := 0
	for i := range histories {
		history := play(t, random)
		calls += len(history)
		switch porcupine.CheckOperationsTimeout(m, history, 30*time.Second) {
		case porcupine.Unknown:
			t.Fatalf("history %d of seed %d has too many orders", i, seed)
		case porcupine.Illegal:
			report(t, m, history)
			t.Fatalf("history %d of seed %d is not linearizable", i, seed)
		}
	}
	t.Logf("%d histories of %d calls, seed %d: all linearizable", histories, calls, seed)
}

func report(t *testing.T, m porcupine.Model, history []porcupine.Operation) {
	t.Helper()
	for _, o := range history {
		t.Logf("client %d, operation %d: %7d to %7d ns: %s", o.ClientId, o.Input.(call).op, o.Call, o.Return, m.DescribeOperation(o.Input, o.Output))
	}
}
