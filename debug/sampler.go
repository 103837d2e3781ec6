package debug

import (
	"time"

	"github.com/delayedop/purgatory/purgatory"
)

const (
	interval = time.Second
	history  = 240 // samples that are kept: four minutes
)

// sampled is a source and its last minutes. Guarded by Page.mu.
type sampled struct {
	source  Source
	samples []sample // oldest first, up to history
}

type sample struct {
	at    time.Time
	stats purgatory.Stats
}

// want starts the sampler unless one runs, and keeps it running.
func (p *Page) want() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.wanted = time.Now()
	if p.mu.stop == nil && !p.mu.closed {
		p.mu.stop = make(chan struct{})
		p.sampleLocked(p.mu.wanted)
		go p.sample(p.mu.stop)
	}
}

// sample is the sampler: a goroutine that ends when nobody has asked for a while.
func (p *Page) sample(stop chan struct{}) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case now := <-tick.C:
			if !p.tick(now, stop) {
				return
			}
		}
	}
}

func (p *Page) tick(now time.Time, stop chan struct{}) (goOn bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.stop != stop { // closed
		return false
	}
	if p.opts.Idle >= 0 && now.Sub(p.mu.wanted) > p.opts.Idle {
		p.mu.stop = nil
		return false
	}
	p.sampleLocked(now)
	return true
}

func (p *Page) sampleLocked(now time.Time) {
	for _, s := range p.mu.sources {
		one := sample{at: now}
		if guarded(func() { one.stats = s.source.Stats() }) != nil {
			continue // view says so
		}
		if n := len(s.samples); n > 0 && startedAgain(&s.samples[n-1].stats, &one.stats) {
			s.samples = nil
		} else if n == history {
			s.samples = append(s.samples[:0], s.samples[1:]...)
		}
		s.samples = append(s.samples, one)
	}
	for _, s := range p.mu.signals {
		one := heard{at: now}
		if guarded(func() { one.stats = s.source.Stats() }) != nil {
			continue
		}
		if n := len(s.samples); n > 0 && ranAnew(&s.samples[n-1].stats, &one.stats) {
			s.samples = nil
		} else if n == history {
			s.samples = append(s.samples[:0], s.samples[1:]...)
		}
		s.samples = append(s.samples, one)
	}
}
