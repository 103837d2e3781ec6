package debug

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/queue"
	"github.com/delayedop/purgatory/signals"
	"github.com/delayedop/purgatory/watermark"
)

// Source is a *purgatory.Purgatory[K] of any K.
type Source interface {
	Name() string
	Stats() purgatory.Stats
	Inspect(operations int) purgatory.Inspection
}

// SignalSource is a source of hints from other processes: a *signals.Runner[K] of any K.
type SignalSource interface{ Stats() signals.Stats }

// QueueSource is a line of items: a *queue.Queue[T] of any T.
type QueueSource interface{ Stats() queue.Stats }

// WatermarkSource is a *watermark.Watermark[K] of any K.
type WatermarkSource interface{ Stats() watermark.Stats }

// ErrNilSource: what is to be shown is nil. For errors.Is.
var ErrNilSource = errors.New("debug: nil source")

// Options configures a page; see [NewWithOptions]. [New] uses the zero value.
type Options struct {
	// HideDetails shows no keys, tenants and operations: numbers only.
	HideDetails bool
	// Rows is how many operations, or tenants, a table has at most. Default 12, at most 100.
	Rows int
	// Idle is how long after the last request the page goes on sampling. Default 2 minutes.
	// With a negative Idle it samples until Close, so that the first request already has the
	// last minutes.
	Idle time.Duration
}

const maxRows = 100

// Page is the debug page. It is an http.Handler, safe for concurrent use.
type Page struct {
	opts Options

	mu struct {
		sync.Mutex
		sources    []*source[purgatory.Stats]
		signals    []*source[signals.Stats]
		queues     []*source[queue.Stats]
		watermarks []*source[watermark.Stats]
		wanted     time.Time     // last request
		stop       chan struct{} // ends the sampler; nil: none runs
		closed     bool
	}
}

// New returns a page that shows sources. Error: [ErrNilSource].
func New(sources ...Source) (*Page, error) { return NewWithOptions(Options{}, sources...) }

// NewWithOptions is [New] with options.
func NewWithOptions(opts Options, sources ...Source) (*Page, error) {
	if opts.Rows <= 0 {
		opts.Rows = 12
	}
	opts.Rows = min(opts.Rows, maxRows)
	if opts.Idle == 0 {
		opts.Idle = 2 * time.Minute
	}
	p := &Page{opts: opts}
	for _, s := range sources {
		if err := p.Add(s); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// Add shows one more purgatory. Error: [ErrNilSource].
func (p *Page) Add(s Source) error {
	return add(p, &p.mu.sources, s, func() purgatory.Stats { return s.Stats() }, func(*purgatory.Stats) string { return s.Name() })
}

// AddSignals shows one more source of hints. Error: [ErrNilSource].
func (p *Page) AddSignals(s SignalSource) error {
	return add(p, &p.mu.signals, s, func() signals.Stats { return s.Stats() }, func(n *signals.Stats) string { return n.Name })
}

// AddQueue shows one more line of items, under that name. Error: [ErrNilSource].
func (p *Page) AddQueue(name string, s QueueSource) error {
	return add(p, &p.mu.queues, s, func() queue.Stats { return s.Stats() }, func(*queue.Stats) string { return name })
}

// AddWatermark shows one more watermark, under that name. Error: [ErrNilSource].
func (p *Page) AddWatermark(name string, s WatermarkSource) error {
	return add(p, &p.mu.watermarks, s, func() watermark.Stats { return s.Stats() }, func(*watermark.Stats) string { return name })
}

// Remove removes what was added: a purgatory, a source of hints, a line or a watermark. The page then does not refer to it. It does
// nothing if s is not on the page, or is of a type that cannot be compared: add a pointer then.
func (p *Page) Remove(s any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	remove(&p.mu.sources, s)
	remove(&p.mu.signals, s)
	remove(&p.mu.queues, s)
	remove(&p.mu.watermarks, s)
}

// Close ends the page's goroutine, if one runs. The page still answers requests
// afterwards, without a history.
func (p *Page) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.closed = true
	if p.mu.stop != nil {
		close(p.mu.stop)
		p.mu.stop = nil
	}
}

// ServeHTTP answers GET and HEAD. With ?name= it shows what has that name only; there may be several.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Vary", "Accept")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		http.Error(w, "only GET and HEAD", http.StatusMethodNotAllowed)
		return
	}
	write := map[string]func(http.ResponseWriter, View){"json": writeJSON, "html": writeHTML, "text": writeText}[format(r)]
	if write == nil {
		http.Error(w, "format must be html, json or text", http.StatusBadRequest)
		return
	}
	p.want()
	write(w, p.view(r.URL.Query()["name"]))
}

// format returns what the request asks for. What accepts anything, as curl does, gets
// text: people who want a page use a browser, which says text/html.
func format(r *http.Request) string {
	if f := r.URL.Query().Get("format"); f != "" {
		return f
	}
	accept := r.Header.Get("Accept")
	switch {
	case strings.Contains(accept, "text/html"):
		return "html"
	case strings.Contains(accept, "application/json"):
		return "json"
	}
	return "text"
}
