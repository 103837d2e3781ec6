package prometheus

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/delayedop/purgatory/queue"
)

// QueueSource is a line of items: a *queue.Queue[T] of any T.
type QueueSource interface {
	Stats() queue.Stats
}

// AddQueue collects one more line of items from the next scrape on, under a name that tells it apart from others. There may be
// any number of tenants, so none is a label, but for one that hogs the line: while it does, one more series names it.
// The debug page names them all. Errors: ErrName, ErrNilSource.
func (c *Collector) AddQueue(name string, s QueueSource) error {
	if isNil(s) {
		return ErrNilSource
	}
	return add(c, c.mu.queues, name, s)
}

// RemoveQueue collects the line of items of this name no longer.
func (c *Collector) RemoveQueue(name string) { remove(c, c.mu.queues, name) }

func queueGauge(name, help string, of func(*queue.Stats) float64) metric[queue.Stats] {
	return metric[queue.Stats]{prometheus.NewDesc("purgatory_queue_"+name, help, []string{"queue"}, nil), prometheus.GaugeValue, of}
}

func queueCounter(name, help string, of func(*queue.Stats) int64) metric[queue.Stats] {
	desc := prometheus.NewDesc("purgatory_queue_"+name, help, []string{"queue"}, nil)
	return metric[queue.Stats]{desc, prometheus.CounterValue, func(n *queue.Stats) float64 { return float64(of(n)) }}
}

var queueMetrics = []metric[queue.Stats]{
	queueGauge("waiting", "Requests that wait for an item.",
		func(n *queue.Stats) float64 { return float64(n.Waiting) }),
	queueGauge("items", "Items, or units, that are kept since nobody has taken them.",
		func(n *queue.Stats) float64 { return float64(n.Items) }),
	queueGauge("oldest_wait_seconds", "How long the request that has waited longest has waited.",
		func(n *queue.Stats) float64 { return n.Oldest.Seconds() }),
	queueGauge("tenants", "Tenants that wait, or whose items are kept.",
		func(n *queue.Stats) float64 { return float64(len(n.Tenants)) }),
	queueGauge("most_waiting_of_a_tenant", "Requests that wait, of the tenant that has most of them.",
		func(n *queue.Stats) float64 {
			most := 0
			for _, t := range n.Tenants {
				most = max(most, t.Waiting)
			}
			return float64(most)
		}),
	queueCounter("put_total", "Items, or units, that were put.",
		func(n *queue.Stats) int64 { return n.Put }),
	queueCounter("put_back_total", "Items, or units, that were put back.",
		func(n *queue.Stats) int64 { return n.Back }),
	queueCounter("handed_total", "Items, or units, that were handed over.",
		func(n *queue.Stats) int64 { return n.Handed }),
	queueCounter("put_refused_total", "Items, or units, that were refused since as many are kept as may be.",
		func(n *queue.Stats) int64 { return n.PutRefused }),
	queueCounter("served_total", "Requests that have got what they asked for.",
		func(n *queue.Stats) int64 { return n.Served }),
	queueCounter("expired_total", "Requests that ended by their timeout, or had waited too long.",
		func(n *queue.Stats) int64 { return n.Expired }),
	queueCounter("left_total", "Requests that their context, Stop, Close or Shutdown has ended.",
		func(n *queue.Stats) int64 { return n.Left }),
	queueCounter("refused_total", "Requests that were refused since the line, or the part of their tenant, is full.",
		func(n *queue.Stats) int64 { return n.Refused }),
}

// A tenant hogs a line while it has hogShare of those who wait, or of the items that are kept, and there are hogMany: as on the debug page.
const (
	hogMany       = 20
	hogShare      = 0.8
	longestTenant = 200 // bytes of the label
)

// hog is a number of the tenant that hogs a line. Its series has the name of the tenant, and exists only meanwhile.
type hog struct {
	desc *prometheus.Desc
	of   func(queue.Tenant) int
}

func queueHog(name, help string, of func(queue.Tenant) int) hog {
	return hog{prometheus.NewDesc("purgatory_queue_"+name, help, []string{"queue", "tenant"}, nil), of}
}

var queueHogs = []hog{
	queueHog("hog_waiting", "Requests that wait, of the tenant that has four fifths of them, or more; while 20 or more wait, and there is such a tenant.",
		func(t queue.Tenant) int { return t.Waiting }),
	queueHog("hog_items", "Items that are kept, of the tenant that has four fifths of them, or more; while 20 or more are kept, and there is such a tenant.",
		func(t queue.Tenant) int { return t.Items }),
}

// collectHogs sends who hogs a line. Where nobody has a name, nobody does.
func collectHogs(name string, n *queue.Stats, out chan<- prometheus.Metric) {
	for _, h := range queueHogs {
		all, most, hog := 0, 0, ""
		for tenant, t := range n.Tenants {
			of := h.of(t)
			if all += of; of > most {
				most, hog = of, tenant
			}
		}
		if (hog != "" || len(n.Tenants) > 1) && all >= hogMany && float64(most) >= hogShare*float64(all) {
			out <- prometheus.MustNewConstMetric(h.desc, prometheus.GaugeValue, float64(most), name, tenantLabel(hog))
		}
	}
}

// tenantLabel returns a name, which a client may have chosen, as the value of a label.
func tenantLabel(name string) string {
	name = label(name)
	return strings.ToValidUTF8(name[:min(len(name), longestTenant)], "") // without the half of a character
}
