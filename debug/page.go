package debug

import (
	"errors"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/queue"
	"github.com/delayedop/purgatory/signals"
)

// Source is what the page shows: a *purgatory.Purgatory[K] of any K.
type Source interface {
	Name() string
	Stats() purgatory.Stats
	Inspect(keys, operations int) purgatory.Inspection
}

// ErrNilSource: a purgatory or a source of hints is nil. For errors.Is.
var ErrNilSource = errors.New("debug: nil source")

// Options configures a page; see [NewWithOptions]. [New] uses the zero value.
type Options struct {
	// HideDetails shows no keys and no operations: numbers only. Operations' String
	// methods are then not called.
	HideDetails bool
	// Rows is how many keys and operations a table has at most. Default 12, at most 100.
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
		sources []*sampled[Source, purgatory.Stats]
		signals []*sampled[SignalSource, signals.Stats]
		queues  []*sampled[namedQueue, queue.Stats]
		wanted  time.Time     // last request
		stop    chan struct{} // ends the sampler; nil: none runs
		closed  bool
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
func (p *Page) Add(s Source) error { return add(p, &p.mu.sources, s) }

// Remove removes s from the page, which then does not refer to it. It does nothing if s is
// not on the page, or is of a type that cannot be compared: add a pointer then.
func (p *Page) Remove(s Source) { remove(p, &p.mu.sources, s) }

// same reports whether a and b are equal sources. Those that cannot be compared never are.
func same(a, b any) bool { return reflect.ValueOf(b).Comparable() && a == b }

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

// ServeHTTP answers GET and HEAD. With ?name= it shows the purgatories of that name only; there may be several.
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
	p.want()
	names := r.URL.Query()["name"]
	switch format(r) {
	case "json":
		writeJSON(w, p.view(names))
	case "html":
		writeHTML(w, p.view(names))
	case "text":
		writeText(w, p.view(names))
	default:
		http.Error(w, "format must be html, json or text", http.StatusBadRequest)
	}
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
