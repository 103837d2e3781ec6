package debug

import (
	"reflect"
	"slices"
	"time"
)

const (
	interval = time.Second
	history  = 240 // samples that are kept: four minutes
)

// sampled is a source and its last minutes. S is [Source], [SignalSource] or a namedQueue.
type sampled[S interface{ Stats() N }, N any] struct {
	source  S
	samples []sample[N] // oldest first, up to history; guarded by Page.mu
}

type sample[N any] struct {
	at    time.Time
	stats N
}

// add shows one more source, unless it is nil, or a nil pointer. Page.mu guards list.
func add[S interface{ Stats() N }, N any](p *Page, list *[]*sampled[S, N], s S) error {
	if isNil(s) {
		return ErrNilSource
	}
	p.mu.Lock()
	*list = append(*list, &sampled[S, N]{source: s})
	p.mu.Unlock()
	if p.opts.Idle < 0 {
		p.want()
	}
	return nil
}

func isNil(s any) bool {
	v := reflect.ValueOf(s)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}

// remove is the opposite of add.
func remove[S interface{ Stats() N }, N any](p *Page, list *[]*sampled[S, N], s S) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.IndexFunc(*list, func(of *sampled[S, N]) bool { return same(of.source, s) }); i >= 0 {
		*list = slices.Delete(*list, i, i+1) // clears the place behind the last
	}
}

// copyOf returns the sources of list, with their samples of the last minutes: older ones are there if the page has not sampled
// for a while.
func copyOf[S interface{ Stats() N }, N any](p *Page, list *[]*sampled[S, N], now time.Time) []sampled[S, N] {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]sampled[S, N], len(*list))
	for i, s := range *list {
		var recent []sample[N]
		if !p.mu.closed {
			recent = slices.Clone(s.samples)
		}
		for len(recent) > 0 && now.Sub(recent[0].at) > history*interval {
			recent = recent[1:]
		}
		all[i] = sampled[S, N]{s.source, recent}
	}
	return all
}

// want starts the sampler unless one runs, and keeps it running.
func (p *Page) want() {
	now := time.Now()
	p.mu.Lock()
	p.mu.wanted = now
	starts := p.mu.stop == nil && !p.mu.closed
	if starts {
		p.mu.stop = make(chan struct{})
		go p.sample(p.mu.stop)
	}
	p.mu.Unlock()
	if starts {
		p.sampleAll(now)
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
			if !p.goesOn(now, stop) {
				return
			}
			p.sampleAll(now)
		}
	}
}

func (p *Page) goesOn(now time.Time, stop chan struct{}) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.stop != stop { // closed
		return false
	}
	if p.opts.Idle >= 0 && now.Sub(p.mu.wanted) > p.opts.Idle {
		p.mu.stop = nil
		return false
	}
	return true
}

func (p *Page) sampleAll(now time.Time) {
	sampleEach(p, &p.mu.sources, now, startedAgain)
	sampleEach(p, &p.mu.signals, now, ranAnew)
	sampleEach(p, &p.mu.queues, now, queuedAnew)
}

// sampleEach holds no lock while it asks a source: it may be a type of the user's.
func sampleEach[S interface{ Stats() N }, N any](p *Page, list *[]*sampled[S, N], now time.Time, anew func(before, now *N) bool) {
	p.mu.Lock()
	sources := slices.Clone(*list)
	p.mu.Unlock()
	for _, s := range sources {
		one := sample[N]{at: now}
		if guarded(func() { one.stats = s.source.Stats() }) != nil {
			continue // view says so
		}
		p.mu.Lock()
		s.addLocked(one, anew)
		p.mu.Unlock()
	}
}

// addLocked adds a sample. Samples of before a new beginning go, see startedAgain.
func (s *sampled[S, N]) addLocked(one sample[N], anew func(before, now *N) bool) {
	if n := len(s.samples); n > 0 {
		last := &s.samples[n-1]
		switch {
		case !one.at.After(last.at):
			return // another goroutine has sampled meanwhile
		case anew(&last.stats, &one.stats):
			s.samples = nil
		case n == history:
			s.samples = s.samples[1:]
			if cap(s.samples) < history { // so that half a megabyte moves once a minute, and not with each sample
				s.samples = append(make([]sample[N], 0, history+history/4), s.samples...)
			}
		}
	}
	s.samples = append(s.samples, one)
}
