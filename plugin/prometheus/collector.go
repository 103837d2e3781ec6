package prometheus

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// Source is what is collected: a *purgatory.Purgatory[K] of any K.
type Source interface {
	Name() string
	Stats() purgatory.Stats
}

// Collector is a prometheus.Collector over any number of purgatories, sources of
// hints, lines of items and watermarks. It is safe for concurrent use.
type Collector struct {
	opts Options

	mu struct { // the maps, which are never replaced
		sync.Mutex
		sources map[string]Source
		signals map[string]SignalSource
		queues  map[string]QueueSource

		watermarks map[string]WatermarkSource
	}
}

// Errors, for errors.Is.
var (
	// ErrName: two purgatories, or two of another kind, have the same name. Their series
	// would be the same.
	ErrName = errors.New("prometheus: name is taken")
	// ErrNilSource: what is to be collected is nil.
	ErrNilSource = errors.New("prometheus: nil source")
)

// Options configures a Collector; see NewWithOptions. New uses the zero value.
type Options struct {
	// NativeHistograms adds native buckets to the classic ones of each histogram. A server
	// that scrapes native histograms then stores one series for each instead of one for
	// each bucket, and any other goes on as before. Native bounds are powers of two of a
	// second, and so 2.3 % below those of purgatory.Histogram.
	NativeHistograms bool
}

// New returns a collector over sources. Errors: ErrName, ErrNilSource.
func New(sources ...Source) (*Collector, error) { return NewWithOptions(Options{}, sources...) }

// NewWithOptions is New with options.
func NewWithOptions(opts Options, sources ...Source) (*Collector, error) {
	c := &Collector{opts: opts}
	c.mu.sources = make(map[string]Source)
	c.mu.signals = make(map[string]SignalSource)
	c.mu.queues = make(map[string]QueueSource)
	c.mu.watermarks = make(map[string]WatermarkSource)
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
	if isNil(s) {
		return ErrNilSource
	}
	return add(c, c.mu.sources, s.Name(), s)
}

// add adds s to a map of c.
func add[S any](c *Collector, to map[string]S, name string, s S) error {
	name = label(name)
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, taken := to[name]; taken {
		return fmt.Errorf("%w: %q", ErrName, name)
	}
	to[name] = s
	return nil
}

// isNil reports whether a source is nil, or a nil pointer.
func isNil(source any) bool {
	v := reflect.ValueOf(source)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}

// label returns a name as the value of a label, which must be valid UTF-8.
func label(name string) string { return strings.ToValidUTF8(name, "\uFFFD") }

// Remove collects the purgatory of this name no longer.
func (c *Collector) Remove(name string) { remove(c, c.mu.sources, name) }

// remove is the opposite of add.
func remove[S any](c *Collector, from map[string]S, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(from, label(name))
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	describe(metrics, out)
	describe(signalMetrics, out)
	describe(queueMetrics, out)
	describe(watermarkMetrics, out)
	for _, d := range []*prometheus.Desc{ended, rejected, waited} {
		out <- d
	}
	for _, h := range queueHogs {
		out <- h.desc
	}
}

// Collect implements prometheus.Collector. If a source's Stats panics, or ends its goroutine, Collect returns an
// invalid metric in its place, which says so: what the registry gathers has an error then, and
// the metrics of the other sources.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	collectAll(c, c.mu.sources, metrics, c.collect, out)
	collectAll(c, c.mu.signals, signalMetrics, nil, out)
	collectAll(c, c.mu.queues, queueMetrics, collectHogs, out)
	collectAll(c, c.mu.watermarks, watermarkMetrics, nil, out)
}

// collectAll sends the metrics of each source in a map of c, and calls more, if there is one. No lock is held meanwhile.
func collectAll[S interface{ Stats() N }, N any](c *Collector, in map[string]S, metrics []metric[N],
	more func(name string, n *N, out chan<- prometheus.Metric), out chan<- prometheus.Metric,
) {
	c.mu.Lock()
	sources := maps.Clone(in)
	c.mu.Unlock()
	for name, s := range sources {
		stats, err := statsOf(name, s.Stats)
		if err != nil {
			out <- prometheus.NewInvalidMetric(metrics[0].desc, err)
			continue
		}
		collectEach(metrics, name, &stats, out)
		if more != nil {
			more(name, &stats, out)
		}
	}
}

// statsOf returns what a source's Stats returns, or what it panicked with. The registry calls
// Collect on a goroutine of its own, where a panic would end the program. A call of runtime.Goexit would
// end that goroutine, and the registry wait for it for ever: so Stats has another one.
func statsOf[S any](name string, of func() S) (stats S, err error) {
	err = fmt.Errorf("prometheus: Stats of %q called runtime.Goexit", name)
	var asked sync.WaitGroup
	asked.Go(func() {
		defer func() {
			if v := recover(); v != nil {
				err = fmt.Errorf("prometheus: Stats of %q panicked: %v", name, v)
			}
		}()
		stats = of()
		err = nil
	})
	asked.Wait()
	return stats, err
}

// collect sends what has one more label.
func (c *Collector) collect(name string, n *purgatory.Stats, out chan<- prometheus.Metric) {
	for o := operation.Satisfied; o < operation.NumOutcomes; o++ {
		out <- prometheus.MustNewConstMetric(ended, prometheus.CounterValue, float64(n.Ended(o)), name, o.String())
		if n.Waited != nil {
			out <- c.histogram(waited, &n.Waited[o], name, o.String())
		}
	}
	for reason, times := range map[string]int64{"closed": n.RejectedClosed, "full": n.RejectedFull, "input": n.RejectedInput} {
		out <- prometheus.MustNewConstMetric(rejected, prometheus.CounterValue, float64(times), name, reason)
	}
}

func (c *Collector) histogram(desc *prometheus.Desc, h *purgatory.Histogram, labels ...string) prometheus.Metric {
	if c.opts.NativeHistograms {
		return withNative(desc, h, labels...)
	}
	return classic(desc, h, labels...)
}
