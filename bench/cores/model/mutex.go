package model

import "slices"

// mutex is sync.Mutex, with what it guards.
type mutex struct {
	name     string
	word     line
	gate     line    // of a shard of the map: whoever runs callbacks enters it, and leaves it
	lines    float64 // further lines that a goroutine writes while it holds the lock
	last     int     // the core that has those
	held     bool
	woken    bool // a goroutine that was woken, or one that spins, will look
	starving bool
	queue    []*goroutine

	taken float64 // when
}

func newMutex(name string, lines float64) *mutex {
	return &mutex{name: name, word: line{at: -1}, gate: line{at: -1}, lines: lines, last: -1}
}

// lock takes the next step of g towards m. It reports whether c has to wait for an event.
func (s *Sim) lock(c *core, g *goroutine, m *mutex) (wait bool) {
	if !g.reached {
		if !g.queued && g.spins == 0 {
			g.came = s.now
		}
		g.reached = true
		s.after(c, s.take(c, &m.word))
		return true
	}
	g.reached = false
	if g.queued && !g.awoke { // it has been woken
		g.starved = g.starved || s.now-g.came > starveFor
		g.awoke, g.spins = !g.handed, 0
	}
	switch {
	case g.handed:
		if !g.starved || len(m.queue) == 0 {
			m.starving = false
		}
	case !m.held && !m.starving:
		if g.awoke {
			m.woken = false
		}
	case !m.starving && g.spins < maxSpins && len(c.queue) == 0 && s.othersRun(c):
		if !g.awoke && !m.woken && len(m.queue) > 0 {
			m.woken, g.awoke = true, true
		}
		g.spins++
		s.after(c, s.Pause)
		return true
	default:
		if g.starved && m.held {
			m.starving = true
		}
		if g.awoke {
			m.woken, g.awoke = false, false
		}
		if g.queued {
			m.queue = slices.Insert(m.queue, 0, g)
		} else {
			m.queue = append(m.queue, g)
		}
		g.queued = true
		c.g = nil
		return false
	}
	m.held, m.taken = true, s.now
	if s.now >= s.warm {
		s.waits = append(s.waits, s.now-g.came)
	}
	g.at++
	g.spins, g.queued, g.awoke, g.starved, g.handed = 0, false, false, false, false
	way := m.lines * s.way(m.last, c.id)
	m.last = c.id
	s.moved += s.counted(way)
	s.after(c, way)
	return true
}

func (s *Sim) othersRun(c *core) bool {
	for i := range s.cores {
		if i != c.id && !s.cores[i].idle {
			return true
		}
	}
	return false
}

// unlock takes the next step of g in releasing m. It reports whether c has to wait for an event.
func (s *Sim) unlock(c *core, g *goroutine, m *mutex) (wait bool) {
	if !g.reached {
		g.reached = true
		s.after(c, s.take(c, &m.word))
		return true
	}
	g.reached = false
	g.at++
	m.held = false
	s.busy[m] += s.counted(s.now - m.taken)
	switch {
	case m.starving: // to the one that has waited longest, which runs here at once
		next := m.queue[0]
		m.queue = m.queue[1:]
		next.handed = true
		s.putBack(c)
		s.ready(c, next)
	case len(m.queue) > 0 && !m.woken:
		m.woken = true
		next := m.queue[0]
		m.queue = m.queue[1:]
		s.ready(c, next)
	}
	return false
}
