package debug

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"
)

const (
	interval = time.Second
	history  = 240 // samples that are kept: four minutes
)

// source is something that the page shows, and its last minutes. N is its Stats.
type source[N any] struct {
	of      any
	stats   func() N
	name    func(*N) string
	samples []sample[N] // oldest first, up to history; guarded by Page.mu
}

type sample[N any] struct {
	at    time.Time
	stats N
}

// add shows one more source, unless it is nil, or a nil pointer. Page.mu guards list.
func add[N any](p *Page, list *[]*source[N], of any, stats func() N, name func(*N) string) error {
	if v := reflect.ValueOf(of); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return ErrNilSource
	}
	p.mu.Lock()
	*list = append(*list, &source[N]{of: of, stats: stats, name: name})
	p.mu.Unlock()
	if p.opts.Idle < 0 {
		p.want()
	}
	return nil
}

// remove is the opposite of add. Sources that cannot be compared are never equal.
func remove[N any](list *[]*source[N], s any) {
	*list = slices.DeleteFunc(*list, func(of *source[N]) bool { return reflect.ValueOf(s).Comparable() && of.of == s })
}

// copyOf returns the sources of list, with their samples of the last minutes: older ones are there if the page has not sampled
// for a while.
func copyOf[N any](p *Page, list *[]*source[N], now time.Time) []source[N] {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]source[N], len(*list))
	for i, s := range *list {
		all[i] = *s
		all[i].samples = slices.Clone(s.samples)
		if p.mu.closed {
			all[i].samples = nil
		}
		for len(all[i].samples) > 0 && now.Sub(all[i].samples[0].at) > history*interval {
			all[i].samples = all[i].samples[1:]
		}
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
	sampleEach(p, &p.mu.sources, now)
	sampleEach(p, &p.mu.signals, now)
	sampleEach(p, &p.mu.queues, now)
	sampleEach(p, &p.mu.watermarks, now)
}

// sampleEach holds no lock while it asks a source: it may be a type of the user's.
func sampleEach[N any](p *Page, list *[]*source[N], now time.Time) {
	p.mu.Lock()
	sources := slices.Clone(*list)
	p.mu.Unlock()
	for _, s := range sources {
		one := sample[N]{at: now}
		if guarded(func() { one.stats = s.stats() }) != nil {
			continue // view says so
		}
		p.mu.Lock()
		if n := len(s.samples); n == 0 || now.After(s.samples[n-1].at) { // no other goroutine has sampled meanwhile
			s.samples = append(s.samples[max(0, n+1-history):], one)
		}
		p.mu.Unlock()
	}
}

// guarded calls f and returns what it panicked with, nil if it did not. A source may be a type of the user's, whose panic must end
// neither the program nor the page; it may end its goroutine: so f has another one.
func guarded(f func()) (failure error) {
	failure = errExited
	var called sync.WaitGroup
	called.Go(func() {
		defer func() {
			if v := recover(); v != nil {
				failure = fmt.Errorf("%v", v)
			}
		}()
		f()
		failure = nil
	})
	called.Wait()
	return failure
}

// errExited: a source has ended its goroutine.
var errExited = errors.New("it called runtime.Goexit")

// minWindow is how long the page has to have watched before it judges by what it saw.
const minWindow = 10 * time.Second

// since returns what the numbers were when the last span of time began, or with the first sample, and how long ago that was. If that
// is less than minWindow, it returns the numbers with which every source begins, and 0.
func since[N any](samples []sample[N], now time.Time, span time.Duration) (before N, length time.Duration) {
	first := 0
	for i := range samples {
		if now.Sub(samples[i].at) >= span {
			first = i
		}
	}
	if len(samples) == 0 || now.Sub(samples[first].at) < minWindow {
		return before, 0
	}
	return samples[first].stats, now.Sub(samples[first].at)
}
