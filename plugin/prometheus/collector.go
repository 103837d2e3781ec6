package prometheus

import (
	"errors"
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// Source is what is collected: a *purgatory.DelayedOperationPurgatory[K] of any K.
type Source interface {
	Name() string
	Stats() purgatory.Stats
}

// Collector is a prometheus.Collector over any number of purgatories. It is safe for
// concurrent use.
type Collector struct {
	mu struct {
		sync.Mutex
		sources map[string]Source
	}
}

// Errors, for errors.Is.
var (
	// ErrName: two purgatories have the same name, which is what tells them apart.
	ErrName = errors.New("prometheus: name is taken")
	// ErrNilSource: a purgatory is nil.
	ErrNilSource = errors.New("prometheus: nil purgatory")
)

// New returns a collector over sources. Errors: ErrName, ErrNilSource.
func New(sources ...Source) (*Collector, error) {
	c := &Collector{}
	c.mu.sources = make(map[string]Source)
	for _, s := range sources {
		if err := c.Add(s); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Add collects one more purgatory from the next scrape on. Errors: ErrName,
// ErrNilSource.
func (c *Collector) Add(s Source) error {
	if s == nil {
		return ErrNilSource
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, taken := c.mu.sources[s.Name()]; taken {
		return fmt.Errorf("%w: %q", ErrName, s.Name())
	}
	c.mu.sources[s.Name()] = s
	return nil
}

// Remove collects the purgatory of this name no longer.
func (c *Collector) Remove(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.mu.sources, name)
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	for _, m := range metrics {
		out <- m.desc
	}
	for _, d := range []*prometheus.Desc{ended, oldestAge, age, waited, late} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	c.mu.Lock()
	sources := make([]Source, 0, len(c.mu.sources))
	for _, s := range c.mu.sources {
		sources = append(sources, s)
	}
	c.mu.Unlock()
	for _, s := range sources {
		collect(s.Name(), s.Stats(), out)
	}
}

func collect(name string, s purgatory.Stats, out chan<- prometheus.Metric) {
	for _, m := range metrics {
		out <- prometheus.MustNewConstMetric(m.desc, m.kind, float64(m.of(&s)), name)
	}
	for o := operation.Satisfied; o < operation.Outcomes; o++ {
		out <- prometheus.MustNewConstMetric(ended, prometheus.CounterValue, float64(s.Ended(o)), name, o.String())
	}
	if !s.Timed {
		return
	}
	out <- prometheus.MustNewConstMetric(oldestAge, prometheus.GaugeValue, s.OldestAge.Seconds(), name)
	for o := operation.Satisfied; o < operation.Outcomes; o++ {
		out <- histogram(waited, &s.Waited[o], name, o.String())
	}
	out <- histogram(late, &s.Late, name)
	for i, n := range cumulative(&s.Ages) {
		if bound := s.Ages.Bound(i); i < purgatory.Buckets-1 {
			out <- prometheus.MustNewConstMetric(age, prometheus.GaugeValue, float64(n), name, fmt.Sprint(bound.Seconds()))
		}
	}
}

func histogram(desc *prometheus.Desc, h *purgatory.Histogram, labels ...string) prometheus.Metric {
	sums := cumulative(h)
	buckets := make(map[float64]uint64, purgatory.Buckets-1)
	for i, n := range sums[:purgatory.Buckets-1] {
		buckets[h.Bound(i).Seconds()] = n
	}
	return prometheus.MustNewConstHistogram(desc, sums[purgatory.Buckets-1], h.Sum, buckets, labels...)
}

func cumulative(h *purgatory.Histogram) (sums [purgatory.Buckets]uint64) {
	var n uint64
	for i, c := range h.Counts {
		n += uint64(c)
		sums[i] = n
	}
	return sums
}
