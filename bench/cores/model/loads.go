package model

// Load is a workload of the matrix.
type Load struct {
	Name  string
	build func(s *Sim, k Costs) // adds its goroutines
}

// Costs are the parts of an operation's life, in nanoseconds, on a machine with one processor. The holds are those of locks
// that nobody else wants and of memory that is in the cache, but for Read.
type Costs struct {
	Total  float64 // of the life of an operation; what is in none of the parts is work without a lock
	Watch  float64 // hold of a shard's lock that links an operation
	Unlink float64 // that takes one out, of one operation or of each in a batch
	Find   float64 // that finds a key, or reads an operation of a list
	Add    float64 // hold of a timer's lock that adds an entry
	Stop   float64 // that cancels one
	Read   float64 // of a crowd's operation that is in no cache
	Hold   int     // how many operations a walk reads in one hold

	Shards      func(cores int) int // of the map
	TimerShards func(cores int) int
}

// batch is how many operations live together in P1, P2 and P4, and end together in a check of a crowd.
const (
	batch   = 64
	crowd   = 128
	pageOps = 73 // operations on a page of 8 KiB, by which a timer's shard is chosen

	// Lines beside the lock's that a goroutine writes under the lock of a timer's shard, and of a map's: the list; the
	// operation beside the one that comes or leaves, if there is one; the counts. For each of many keys, a hundred, and one.
	timerOwn, ofMany, ofHundred, hotLines = 2, 1, 2, 3
)

// world is what the goroutines of a load share.
type world struct {
	s      *Sim
	k      Costs
	timers []*mutex
	shards []*mutex
	last   *line // of the operation that has been registered last under a hot key
}

func newWorld(s *Sim, k Costs, lines float64) *world {
	w := &world{s: s, k: k, timers: make([]*mutex, k.TimerShards(s.Cores)), shards: make([]*mutex, k.Shards(s.Cores))}
	for i := range w.timers {
		w.timers[i] = newMutex("timer shards", timerOwn)
	}
	for i := range w.shards {
		w.shards[i] = newMutex("map shards", lines)
	}
	return w
}

// life is what a goroutine knows of its operations.
type life struct {
	world *world
	page  *mutex // the timer's shard of the page that it allocates from
	left  int    // operations on it
}

// timer returns the shard of the next operation.
func (l *life) timer(g *goroutine) *mutex {
	if l.left == 0 {
		l.page, l.left = l.world.timers[g.rand.IntN(len(l.world.timers))], pageOps
	}
	l.left--
	return l.page
}

func under(steps []step, m *mutex, hold float64) []step {
	return append(steps, step{kind: lock, lock: m}, step{kind: work, for_: hold}, step{kind: unlock, lock: m})
}

func does(steps []step, d float64) []step { return append(steps, step{kind: work, for_: max(d, 0)}) }

// lives has each core run one goroutine, whose operations live in batches on a key of its own and on others that all share.
// The batch ends by one check, or each operation by itself.
func lives(shared, keys int, forced bool, lines float64) func(*Sim, Costs) {
	return func(s *Sim, k Costs) {
		w := newWorld(s, k, lines)
		for i := range s.Cores {
			l := &life{world: w}
			s.start(i, func(g *goroutine, steps []step) []step { return l.batch(g, steps, shared, keys, forced) })
		}
	}
}

func (l *life) batch(g *goroutine, steps []step, shared, keys int, forced bool) []step {
	k, w := l.world.k, l.world
	own := w.shards[g.rand.IntN(len(w.shards))]
	free := k.Total - k.Add - k.Stop - k.Find - float64(shared+keys)*(k.Watch+k.Unlink)
	timers, others := [batch]*mutex{}, [batch][]*mutex{}
	for i := range batch {
		timers[i] = l.timer(g)
		steps = does(steps, free/2)
		steps = under(steps, timers[i], k.Add)
		for range shared {
			steps = under(steps, own, k.Watch)
		}
		for range keys {
			other := w.shards[g.rand.IntN(len(w.shards))]
			if forced { // 100 keys have a shard of their own each, more or less
				other = w.shards[g.rand.IntN(min(100, len(w.shards)))]
			}
			others[i] = append(others[i], other)
			steps = under(steps, other, k.Watch)
		}
	}
	leaves := func(steps []step, i int) []step {
		for _, other := range others[i] {
			steps = under(steps, other, k.Unlink)
		}
		return steps
	}
	if forced {
		for i := range batch {
			first := others[i][0]
			steps = append(does(steps, free/2), step{kind: write, line: &first.gate})
			steps = leaves(steps, i)
			steps = under(steps, timers[i], k.Stop)
			steps = append(steps, step{kind: write, line: &first.gate}, step{kind: count, for_: 1})
		}
		return steps
	}
	for read := 0; read < batch; read += k.Hold {
		steps = under(steps, own, k.Find*float64(k.Hold))
	}
	steps = under(does(steps, free/2*batch), own, k.Unlink*batch)
	for i := range batch {
		steps = leaves(steps, i)
	}
	for i := 0; i < batch; { // a lock of the timer for those that lie on a page
		n := 1
		for ; i+n < batch && timers[i+n] == timers[i]; n++ {
		}
		steps = under(steps, timers[i], k.Stop*float64(n))
		i += n
	}
	return append(steps, step{kind: count, for_: batch})
}

// hot has each core register an operation under one key, and cancel it.
func hot(s *Sim, k Costs) {
	w := newWorld(s, k, hotLines)
	for i := range s.Cores {
		s.start(i, w.oneHot())
	}
}

func (w *world) oneHot() func(*goroutine, []step) []step {
	l, k, s := &life{world: w}, w.k, w.shards[0]
	own := &line{at: -1} // of the operation: who links another one behind it writes it
	free := k.Total - k.Add - k.Watch - k.Unlink - k.Stop
	return func(g *goroutine, steps []step) []step {
		timer := l.timer(g)
		steps = under(does(steps, free/2), timer, k.Add)
		steps = append(steps, step{kind: lock, lock: s}, step{kind: work, for_: k.Watch})
		if w.last != nil && w.last != own {
			steps = append(steps, step{kind: write, line: w.last})
		}
		w.last = own
		steps = append(does(append(steps, step{kind: unlock, lock: s}), free/2), step{kind: write, line: own}, step{kind: write, line: &s.gate})
		steps = under(under(steps, s, k.Unlink), timer, k.Stop)
		return append(steps, step{kind: write, line: &s.gate}, step{kind: count, for_: 1})
	}
}

// crowded is hot beside a goroutine that ends operations of the key in batches, which are in no cache.
func crowded(s *Sim, k Costs) {
	w := newWorld(s, k, hotLines)
	checker := func(g *goroutine, steps []step) []step {
		for read := 0; read < crowd; read += k.Hold {
			steps = under(steps, w.shards[0], k.Read*float64(k.Hold))
		}
		steps = does(steps, 30*crowd)
		steps = under(steps, w.shards[0], k.Unlink*crowd)
		for range crowd {
			steps = under(steps, w.timers[g.rand.IntN(len(w.timers))], k.Read)
		}
		return append(steps, step{kind: yield})
	}
	s.start(0, checker)
	for i := range max(s.Cores-1, 1) {
		s.start(i+1, w.oneHot())
	}
}

// herdSize is how many goroutines wait in a herd.
const herdSize = 2000

// herd has goroutines wait under one key, ends all of them by a check, and has them wait again.
func herd(s *Sim, k Costs) {
	w := newWorld(s, k, hotLines)
	free := k.Total - k.Add - k.Watch - k.Unlink - k.Stop - k.Find
	var waiting []*goroutine
	waker := s.start(0, func(_ *goroutine, steps []step) []step {
		if len(waiting) < herdSize {
			return append(steps, step{kind: park})
		}
		for len(waiting) > 0 {
			n := min(crowd, len(waiting))
			for read := 0; read < n; read += k.Hold {
				steps = under(steps, w.shards[0], k.Find*float64(k.Hold))
			}
			steps = under(does(steps, free/4*float64(n)), w.shards[0], k.Unlink*float64(n))
			steps = under(steps, w.timers[0], k.Stop*float64(n))
			for _, g := range waiting[:n] {
				steps = append(does(steps, free/4), step{kind: ready, g: g})
			}
			steps = append(steps, step{kind: yield})
			waiting = waiting[n:]
		}
		return steps
	})
	for i := range herdSize {
		l, registered := &life{world: w}, false
		s.start(i, func(g *goroutine, steps []step) []step {
			if registered = !registered; registered {
				steps = under(does(steps, free/2), l.timer(g), k.Add)
				return under(steps, w.shards[0], k.Watch)
			}
			waiting = append(waiting, g)
			if len(waiting) == herdSize {
				steps = append(steps, step{kind: ready, g: waker})
			}
			return append(steps, step{kind: park}, step{kind: count, for_: 1})
		})
	}
}

// Bare is a lock that one goroutine takes again and again, holding it for a time, and another one now and then.
type Bare struct{ Hold, Gap, Think float64 }

func (b Bare) build(s *Sim, _ Costs) {
	m := newMutex("the lock", 0)
	s.start(0, func(_ *goroutine, steps []step) []step { return does(under(steps, m, b.Hold), b.Gap) })
	s.start(1, func(_ *goroutine, steps []step) []step {
		return append(does(under(steps, m, 50), b.Think), step{kind: count, for_: 1})
	})
}

// Loads are the workloads of the matrix that are simulated.
func Loads() []Load {
	return []Load{
		{"P1", lives(1, 0, false, ofMany)},
		{"P2", lives(1, 2, false, ofMany)},
		{"P4", lives(0, 3, true, ofHundred)},
		{"hot key", hot},
		{"crowd", crowded},
		{"herd", herd},
	}
}
