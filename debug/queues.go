package debug

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/delayedop/purgatory/queue"
)

// QueueSource is a line of items: a *queue.Queue[T] of any T.
type QueueSource interface {
	Stats() queue.Stats
}

// namedQueue is a source and the name that the page gives it.
type namedQueue struct {
	QueueSource
	name string
}

// AddQueue shows a queue under that name. Error: [ErrNilSource].
func (p *Page) AddQueue(name string, s QueueSource) error {
	if isNil(s) {
		return ErrNilSource
	}
	return add(p, &p.mu.queues, namedQueue{s, strings.ToValidUTF8(name, "\uFFFD")})
}

// RemoveQueue removes the queues of that name from the page, which then does not refer to them.
func (p *Page) RemoveQueue(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.queues = slices.DeleteFunc(p.mu.queues, func(s *sampled[namedQueue, queue.Stats]) bool { return s.source.name == name })
}

// QueueView is one queue. Durations are in seconds, counters since its start.
type QueueView struct {
	Name  string `json:"name"`
	ID    string `json:"id"`    // its anchor in the page
	State string `json:"state"` // "trouble", "look" or "ok": its worst note
	Notes []Note `json:"notes"`

	Waiting    int          `json:"waiting"`
	Items      int          `json:"items"`
	Oldest     float64      `json:"oldest"`
	Put        int64        `json:"put"`
	Back       int64        `json:"back"`
	Handed     int64        `json:"handed"`
	PutRefused int64        `json:"put_refused"`
	Served     int64        `json:"served"`
	Expired    int64        `json:"expired"`
	Left       int64        `json:"left"`
	Refused    int64        `json:"refused"`
	Tenants    []TenantView `json:"tenants"` // those that wait most, none if details are hidden

	Rate *float64 `json:"handed_per_second"` // over the last seconds; null until there are two samples
}

// TenantView is one tenant of a queue.
type TenantView struct {
	Name    string  `json:"name"`
	Waiting int     `json:"waiting"`
	Items   int     `json:"items"`
	Oldest  float64 `json:"oldest"`
}

// When a line deserves a note.
const (
	hogPercent = 80               // of those who wait are of one tenant,
	hogMany    = 20               // and so many wait
	stillLook  = 30 * time.Second // that nothing was handed over
)

// queueNotes says what is remarkable about a line. before is what it was at the beginning of the window, with the numbers
// with which every queue begins if that is its start.
func queueNotes(n, before *queue.Stats, length time.Duration, hidden bool) []Note {
	b := notebook{w: &window{length: length}, all: []Note{}}
	refused, putRefused := n.Refused-before.Refused, n.PutRefused-before.PutRefused
	switch {
	case refused > 0 && n.Waiting > 0 && n.Handed == before.Handed && length >= stillLook: // idle workers are refused by nobody
		b.trouble("the line stands still: %s, the longest for %s, nothing was handed over, and %s refused %s: do those who take put back?",
			count(int64(n.Waiting), "request waits", "requests wait"), seconds(n.Oldest.Seconds()), count(refused, "was", "were"), b.span())
	case refused > 0:
		b.lately("full: %s refused %s, by WithMaxWaiting or by the timer's maximum", count(refused, "request was", "requests were"), b.span())
	}
	if putRefused > 0 {
		b.lately("full: %s refused %s, by WithMaxItems", count(putRefused, "item was", "items were"), b.span())
	}
	for tenant, t := range n.Tenants {
		if n.Waiting >= hogMany && 100*t.Waiting >= hogPercent*n.Waiting && len(n.Tenants) > 1 {
			name := quote(tenant)
			if hidden {
				name = "(hidden)"
			}
			b.look("tenant %s is %d of the %d that wait", name, t.Waiting, n.Waiting)
		}
	}
	return b.sorted()
}

// viewQueues looks at every queue, or at those of the given names if there are any.
func (p *Page) viewQueues(names []string, now time.Time) []QueueView {
	all := copyOf(p, &p.mu.queues, now)
	views, ids := make([]QueueView, 0, len(all)), make(map[string]int)
	for _, s := range all {
		id := anchor("q-", s.source.name, ids)
		if len(names) > 0 && !slices.Contains(names, s.source.name) {
			continue
		}
		var n queue.Stats
		failure := guarded(func() { n = s.source.Stats() })
		if len(s.samples) > 0 && queuedAnew(&s.samples[len(s.samples)-1].stats, &n) {
			s.samples = nil
		}
		before, length := windowStart(s.samples, now)
		v := QueueView{
			Name: s.source.name, ID: id, Waiting: n.Waiting, Items: n.Items, Oldest: n.Oldest.Seconds(), Put: n.Put, Back: n.Back,
			Handed: n.Handed, PutRefused: n.PutRefused, Served: n.Served, Expired: n.Expired, Left: n.Left, Refused: n.Refused,
			Notes: queueNotes(&n, &before, length, p.opts.HideDetails), Tenants: []TenantView{},
		}
		if failure != nil {
			v.Notes = failed(failure, p.opts.HideDetails)
		}
		v.State = state(v.Notes)
		if first, last := lastSeconds(s.samples); first != nil {
			r := rate(first, last, func(n *queue.Stats) int64 { return n.Handed })
			v.Rate = &r
		}
		if !p.opts.HideDetails {
			v.Tenants = p.tenants(n.Tenants)
		}
		views = append(views, v)
	}
	slices.SortStableFunc(views, func(a, b QueueView) int { return urgency(a.State) - urgency(b.State) })
	return views
}

// tenants returns those that wait most.
func (p *Page) tenants(all map[string]queue.Tenant) []TenantView {
	views := make([]TenantView, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t := all[name]
		views = append(views, TenantView{strings.ToValidUTF8(name, "\uFFFD"), t.Waiting, t.Items, t.Oldest.Seconds()})
	}
	slices.SortStableFunc(views, func(a, b TenantView) int {
		return cmp.Or(cmp.Compare(b.Waiting, a.Waiting), cmp.Compare(b.Items, a.Items))
	})
	return views[:min(len(views), p.opts.Rows)]
}

// queuedAnew is startedAgain for a queue.
func queuedAnew(before, now *queue.Stats) bool {
	return now.Put < before.Put || now.Back < before.Back || now.Handed < before.Handed || now.Served < before.Served ||
		now.Expired < before.Expired || now.Left < before.Left || now.Refused < before.Refused || now.PutRefused < before.PutRefused
}
