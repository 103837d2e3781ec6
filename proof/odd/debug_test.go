package odd

import (
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/debug"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/queue"
	"github.com/delayedop/purgatory/signals"
	"github.com/delayedop/purgatory/watermark"
)

// pages is a World of a debug page, which shows another purgatory, too.
type pages struct {
	t    *testing.T
	page *debug.Page
}

// oddSource is what is to be shown, with one odd method.
type oddSource struct {
	on  string
	act func()
}

func (s *oddSource) do(method string) {
	if s.on == method {
		s.act()
	}
}

func (s *oddSource) Name() string { s.do("Source.Name"); return "odd" }
func (s *oddSource) Inspect(int) purgatory.Inspection {
	s.do("Source.Inspect")
	return purgatory.Inspection{}
}
func (s *oddSource) Stats() purgatory.Stats { s.do("Source.Stats"); return purgatory.Stats{} }

type (
	oddQueue     struct{ act func() }
	oddSignals   struct{ act func() }
	oddWatermark struct{ act func() }
)

func (s oddQueue) Stats() queue.Stats         { s.act(); return queue.Stats{} }
func (s oddSignals) Stats() signals.Stats     { s.act(); return signals.Stats{Name: "odd"} }
func (s oddWatermark) Stats() watermark.Stats { s.act(); return watermark.Stats{} }

func newPages(t *testing.T) *pages {
	page, err := debug.New(&oddSource{})
	require.NoError(t, err)
	return &pages{t, page}
}

func (w *pages) get(to http.ResponseWriter) {
	w.page.ServeHTTP(to, httptest.NewRequest(http.MethodGet, "/?format=text", nil))
}

// asked returns whether the page shows that something is odd.
func (w *pages) asked() string {
	r := httptest.NewRecorder()
	w.get(r)
	return map[bool]string{true: "trouble", false: "ok"}[strings.Contains(r.Body.String(), "the source ")]
}

func (w *pages) Back() {
	assert.NoError(w.t, Methods(w.page, []string{"Close", "ServeHTTP"}, func(_ string, of reflect.Type) any {
		switch of {
		case reflect.TypeFor[debug.Source](), reflect.TypeFor[any]():
			return &oddSource{}
		case reflect.TypeFor[debug.SignalSource]():
			return oddSignals{func() {}}
		case reflect.TypeFor[debug.QueueSource]():
			return oddQueue{func() {}}
		case reflect.TypeFor[debug.WatermarkSource]():
			return oddWatermark{func() {}}
		case reflect.TypeFor[string]():
			return "new"
		}
		return nil
	}))
}

func (w *pages) Close()       { w.page.Close() }
func (w *pages) Seen() string { return "" }
func (w *pages) Beside()      { assert.NoError(w.t, w.page.Add(&oddSource{})) }

func (w *pages) End() {
	time.Sleep(time.Minute)
	r := httptest.NewRecorder()
	w.get(r)
	assert.Contains(w.t, r.Body.String(), "odd")
	w.page.Close()
	synctest.Wait()
}

// oddWriter is a connection whose Write is odd.
type oddWriter struct {
	*httptest.ResponseRecorder
	act func()
}

func (o oddWriter) Write(p []byte) (int, error) { o.act(); return len(p), nil }

func TestOddUsersOfADebugPage(t *testing.T) {
	want := map[User]string{Panics: "trouble", Exits: "trouble", CallsBack: "ok", Closes: "ok", Stays: "stays"}
	sources := []string{"Source.Name", "Source.Stats", "Source.Inspect"}
	rows := []Row[*pages]{
		{
			Of: sources, Want: want,
			Do: func(w *pages, d *Do) string {
				require.NoError(w.t, w.page.Add(&oddSource{d.Of, d.Act}))
				return w.asked()
			},
		},
		{
			Of: []string{"QueueSource.Stats", "SignalSource.Stats", "WatermarkSource.Stats"}, Want: want,
			Do: func(w *pages, d *Do) string {
				switch d.Of {
				case "QueueSource.Stats":
					require.NoError(w.t, w.page.AddQueue("odd", oddQueue{d.Act}))
				case "SignalSource.Stats":
					require.NoError(w.t, w.page.AddSignals(oddSignals{d.Act}))
				default:
					require.NoError(w.t, w.page.AddWatermark("odd", oddWatermark{d.Act}))
				}
				return w.asked()
			},
		},
		{
			Of: []string{"Page.ServeHTTP(w)"}, On: "in Write", Want: atOnce("ok"),
			Do: func(w *pages, d *Do) string {
				w.get(oddWriter{httptest.NewRecorder(), d.Act})
				return "ok"
			},
		},
		{
			Of: []string{"Page.Remove(s)"}, Silent: true, Want: silently("ok"),
			Do: func(w *pages, d *Do) string {
				w.page.Remove(oddQueue{d.Act}) // it cannot be compared
				return w.asked()
			},
		},
		{
			Of: []string{"New(sources)", "NewWithOptions(sources)"}, On: "afterwards", Want: ofSlices("ok"),
			Do: func(w *pages, d *Do) string {
				sources := append(make([]debug.Source, 0, 4), &oddSource{})
				if d.Of == "New(sources)" {
					w.page, _ = debug.New(sources...)
				} else {
					w.page, _ = debug.NewWithOptions(debug.Options{}, sources...)
				}
				Slice(d, sources, nil)
				d.Spoil()
				return w.asked()
			},
		},
	}
	Check(t, "../../debug", newPages, rows)
}
