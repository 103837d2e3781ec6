package watchers

import "github.com/delayedop/purgatory/internal/sched"

// Gate counts the goroutines that run user code for keys of a shard, and the operations
// whose callbacks have been run ("answered"). It is safe for concurrent use.
type Gate struct {
	// state holds, from the lowest bit, the number of calls of Enter without their Exit, the
	// number of answered operations, and the number of calls of Exit. The last two wrap
	// around. It is one word so that Exit is one addition.
	state sched.Uint64
}

const (
	maxGates    = 512 // if there are more shards, they share gates
	insideBits  = 22
	insideMask  = 1<<insideBits - 1
	exitShift   = 58
	answeredMax = 1 << (exitShift - insideBits) // answered operations are counted modulo this
)

// Enter must be called before user code runs. It reports whether no other entry of the
// gate is open.
func (g *Gate) Enter() (alone bool) {
	return g.state.Add(1)&insideMask == 1
}

// Exit must be called after user code has run. answered is the number of operations
// whose callbacks have been run since Enter.
func (g *Gate) Exit(answered int) {
	g.state.Add(1<<exitShift + uint64(answered)<<insideBits - 1)
}

// inside returns the number of calls of Enter without their Exit.
func (g *Gate) inside() int { return int(g.state.Load() & insideMask) }

func (g *Gate) answered() uint64 {
	return g.state.Load() >> insideBits % answeredMax
}

// Unanswered returns how many operations have been accepted and are not answered: none, if there was a
// moment during the call at which there were none.
//
// Both counts only grow, and no operation is answered before it is accepted. Unanswered reads
// all answered counts before the first accepted count. So if the sums are equal, they
// were equal between the two passes. They are compared modulo answeredMax. That is
// enough, because memory does not suffice for 2^36 pending operations.
func (w *Watchers[K]) Unanswered() int {
	var answered uint64
	var total Totals
	for s := range w.Shards() {
		answered += s.ownGate.answered()
	}
	for s := range w.Shards() {
		s.Totals(&total)
	}
	return int((uint64(total.Accepted) - answered) % answeredMax)
}

// Inside returns the number of open entries of all gates: the goroutines that run user
// code of w's operations. A goroutine whose calls are nested counts once for each level.
func (w *Watchers[K]) Inside() (n int) {
	for s := range w.Shards() {
		n += s.ownGate.inside()
	}
	return n
}
