// Package model simulates the library on machines with more processors than there are here.
//
// It is a discrete-event simulation. Goroutines take steps: they work, move cache lines to their core, and take locks. A
// cache line is at one core at a time. Who needs it waits until those that came before have had it, and then for as long as
// a line takes between the two cores. A lock is Go's sync.Mutex: it spins four times, then parks the goroutine in its
// queue, lets others overtake who was woken, and is in starvation mode once somebody has waited for a millisecond. A core
// runs one goroutine at a time, from a queue of its own, and takes one of another core when it has none.
//
// Not in the model: the memory's bandwidth, the collector, hyper-threads, the kernel's other work, and lines that several
// cores only read.
package model

import (
	"math"
	"math/rand/v2"
)

// Machine is what a simulation runs on. Times are in nanoseconds.
type Machine struct {
	Cores     int
	PerGroup  int // cores that share a cache
	PerSocket int

	Near, Across, Far float64 // a line's way between cores of a group, groups of a socket, and sockets

	Slow float64 // how much longer work takes while the other core of two runs, which may be a thread of the same; 1 without that

	Pause  float64 // one spin of a lock: 30 PAUSE instructions
	Switch float64 // from one goroutine to the next on a core
	Wake   float64 // until an idle core runs a goroutine that was made ready
}

// Go's constants: see internal/sync/mutex.go and runtime/proc.go.
const (
	maxSpins  = 4
	starveFor = 1e6
	slice     = 1e7
)

func (m *Machine) way(from, to int) float64 {
	switch {
	case from == to || from < 0:
		return 0
	case from/m.PerGroup == to/m.PerGroup:
		return m.Near
	case from/m.PerSocket == to/m.PerSocket:
		return m.Across
	}
	return m.Far
}

// line is a cache line that cores write.
type line struct {
	at   int // the core that has it
	free float64
}

type kind uint8

const (
	work   kind = iota // for a time
	lock               // a mutex
	unlock             // it
	write              // to a line
	yield              // to the other goroutines of the core
	ready              // makes a goroutine ready
	park               // until somebody makes it ready
	count              // operations that are over
)

type step struct {
	kind kind
	for_ float64 // ns of work; number of operations
	lock *mutex
	line *line
	g    *goroutine
}

// goroutine takes the steps that next appends, again and again.
type goroutine struct {
	next  func(g *goroutine, steps []step) []step
	steps []step
	at    int
	rand  *rand.Rand

	// While it waits for a lock:
	reached bool // the lock's line is at its core
	came    float64
	spins   int
	queued  bool // has been in the queue
	awoke   bool // has the right to be the only one that was woken
	starved bool
	handed  bool // has been given the lock

	since float64 // of its time slice
}

type core struct {
	id    int
	at    float64 // when it goes on; never if it is idle
	g     *goroutine
	queue []*goroutine
	idle  bool
}

// Sim is one run.
type Sim struct {
	Machine
	now   float64
	cores []core
	waits []float64 // of every lock that was not free at once, and 0 of the others

	ops   float64
	warm  float64            // before this time nothing is counted
	busy  map[*mutex]float64 // for how long each lock is held
	moved float64            // time for which cores wait for lines
}

func newSim(m Machine) *Sim {
	s := &Sim{Machine: m, cores: make([]core, m.Cores), busy: map[*mutex]float64{}}
	for i := range s.cores {
		s.cores[i].id = i
	}
	return s
}

// start adds a goroutine.
func (s *Sim) start(i int, next func(*goroutine, []step) []step) *goroutine {
	g := &goroutine{next: next, rand: rand.New(rand.NewPCG(uint64(i), 52))}
	c := &s.cores[i%len(s.cores)]
	c.queue = append(c.queue, g)
	return g
}

// run simulates until a time; what happens before warm is not counted.
func (s *Sim) run(warm, until float64) {
	s.warm = warm
	for i := range s.cores {
		s.cores[i].at = float64(i) // not all at once
	}
	for {
		next := &s.cores[0]
		for i := range s.cores {
			if s.cores[i].at < next.at {
				next = &s.cores[i]
			}
		}
		if next.at > until {
			return
		}
		s.now, next.at = next.at, math.Inf(1)
		s.proceed(next)
	}
}

// counted returns what counts of x.
func (s *Sim) counted(x float64) float64 {
	if s.now < s.warm {
		return 0
	}
	return x
}

func (s *Sim) after(c *core, d float64) { c.at = s.now + d }

// proceed takes steps on c until one of them takes time.
func (s *Sim) proceed(c *core) {
	for {
		g := c.g
		if g == nil {
			if !s.pick(c) {
				c.idle = true
				return
			}
			s.after(c, s.Switch)
			return
		}
		if s.now-g.since > slice && len(c.queue) > 0 {
			s.putBack(c)
			continue
		}
		if g.at == len(g.steps) {
			g.steps, g.at = g.next(g, g.steps[:0]), 0
			continue
		}
		st := g.steps[g.at]
		switch st.kind {
		case work:
			g.at++
			d := st.for_
			if s.Slow > 1 && s.othersRun(c) {
				d *= s.Slow
			}
			s.after(c, d)
			return
		case lock:
			if s.lock(c, g, st.lock) {
				return
			}
		case unlock:
			if s.unlock(c, g, st.lock) {
				return
			}
		case write:
			g.at++
			s.after(c, s.take(c, st.line))
			return
		case yield:
			g.at++
			s.putBack(c)
		case ready:
			g.at++
			s.ready(c, st.g)
		case park:
			g.at++
			c.g = nil
		case count:
			g.at++
			s.ops += s.counted(st.for_)
		}
	}
}

// pick gives c the next goroutine of its queue, or one of another core's.
func (s *Sim) pick(c *core) bool {
	for i := range s.cores {
		from := &s.cores[(c.id+i)%len(s.cores)]
		if len(from.queue) > 0 && (i == 0 || from.g != nil) { // else it is about to run it itself
			c.g, from.queue = from.queue[0], from.queue[1:]
			c.g.since = s.now
			return true
		}
	}
	return false
}

func (s *Sim) putBack(c *core) {
	c.queue = append(c.queue, c.g)
	c.g = nil
}

// ready has c run g next, unless an idle core wakes up before and takes it.
func (s *Sim) ready(c *core, g *goroutine) {
	c.queue = append([]*goroutine{g}, c.queue...)
	for i := range s.cores {
		if idle := &s.cores[(c.id+i)%len(s.cores)]; idle.idle {
			idle.idle = false
			s.after(idle, s.Wake)
			return
		}
	}
}

// take brings a line to c, and returns how long c waits for it.
func (s *Sim) take(c *core, l *line) float64 {
	way := s.way(l.at, c.id)
	l.at = c.id
	if way == 0 && l.free <= s.now {
		return 0
	}
	l.free = max(l.free, s.now) + way
	s.moved += s.counted(l.free - s.now)
	return l.free - s.now
}
