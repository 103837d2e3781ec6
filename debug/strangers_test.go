package debug

import (
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/signals"
)

// stranger is a source of the user's.
type stranger struct {
	name   string
	stats  func() purgatory.Stats
	failed bool // Inspect panics
}

func (s *stranger) Name() string           { return s.name }
func (s *stranger) Stats() purgatory.Stats { return s.stats() }
func (s *stranger) Inspect(int) (in purgatory.Inspection) {
	if s.failed {
		panic("secret \x1b[2J")
	}
	return in
}

// deaf is a source of hints that panics.
type deaf struct{}

func (deaf) Stats() signals.Stats { panic("secret") }

// unnamed is a source whose Name panics.
type unnamed struct{ Source }

func TestNilSourcesAreErrors(t *testing.T) {
	var none fetches
	var deaf *signals.Runner[string]
	page := pageOf()
	defer page.Close()
	for _, err := range []error{page.Add(nil), page.Add(none), page.AddSignals(nil), page.AddSignals(deaf)} {
		require.ErrorIs(t, err, ErrNilSource)
	}
	for _, made := range []func() (*Page, error){
		func() (*Page, error) { return New(nil) },
		func() (*Page, error) { return NewWithOptions(Options{}, newFetches(t), none) },
	} {
		page, err := made()
		require.ErrorIs(t, err, ErrNilSource)
		assert.Nil(t, page)
	}
	assert.Empty(t, page.view(nil).Purgatories)
}

func TestASourceThatPanicsIsShownAsTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		well := newFetches(t)
		page := pageWith(Options{Idle: -1}, well, unnamed{})
		defer page.Close()
		require.NoError(t, page.Add(&stranger{name: "numbers", stats: func() purgatory.Stats { panic("secret \x1b[2J") }}))
		require.NoError(t, page.Add(&stranger{name: "inspection", stats: func() purgatory.Stats { return purgatory.Stats{} }, failed: true}))
		require.NoError(t, page.AddSignals(deaf{}))
		time.Sleep(time.Minute + time.Millisecond) // the sampler goes on
		v := page.view(nil)
		assert.Equal(t, []string{"(no name)", "numbers", "inspection", "fetches"}, names(v))
		for _, p := range v.Purgatories[:3] {
			assert.Equal(t, stateTrouble, p.State)
			require.Len(t, p.Notes, 1)
			assert.Contains(t, p.Notes[0].Text, "the source panicked: ")
		}
		assert.Equal(t, stateOK, v.Purgatories[3].State)
		assert.Len(t, v.Purgatories[3].History, 61)
		require.Len(t, v.Signals, 1)
		assert.Equal(t, []Note{{stateTrouble, "its numbers are not known: the source panicked: secret"}}, v.Signals[0].Notes)
		text := get(t, page, "/").Body.String()
		assert.Contains(t, text, `panicked: secret \x1b[2J`)
		assert.NotContains(t, text, "\x1b")

		page.opts.HideDetails = true
		for _, format := range []string{"html", "json", "text"} {
			body := get(t, page, "/?format="+format).Body.String()
			assert.Contains(t, body, "the source panicked")
			assert.NotContains(t, body, "secret")
		}
	})
}

// A source may end the goroutine that asks it, or close what it shows, or the page. The page samples the others, and goes on.
func TestASourceMayStopWhatItShows(t *testing.T) {
	for name, call := range map[string]func(p *purgatory.Purgatory[string], page *Page){
		"ends its goroutine": func(*purgatory.Purgatory[string], *Page) { runtime.Goexit() },
		"closes it":          func(p *purgatory.Purgatory[string], _ *Page) { _ = p.Close() },
		"closes it, and ends its goroutine": func(p *purgatory.Purgatory[string], _ *Page) {
			_ = p.Close()
			runtime.Goexit()
		},
		"asks for the page":   func(_ *purgatory.Purgatory[string], page *Page) { page.view(nil) },
		"closes the page":     func(_ *purgatory.Purgatory[string], page *Page) { page.Close() },
		"adds another":        func(_ *purgatory.Purgatory[string], page *Page) { _ = page.AddSignals(deaf{}) },
		"panics with no text": func(*purgatory.Purgatory[string], *Page) { panic(nil) },
	} {
		for _, place := range []string{"Name", "Stats", "Inspect", "Stats of hints"} {
			t.Run(name+", "+place, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p, err := purgatory.New[string]("asked")
					require.NoError(t, err)
					defer p.Close()
					page := pageWith(Options{Idle: -1}, newFetches(t))
					defer page.Close()
					var armed atomic.Bool
					var calls atomic.Int32
					at := func(here string) {
						if armed.Load() && here == place && calls.Add(1) < 3 { // by the sampler, and for a view
							call(p, page)
						}
					}
					require.NoError(t, page.Add(&asked{p, at}))
					require.NoError(t, page.AddSignals(signalsOf(func() signals.Stats { at("Stats of hints"); return signals.Stats{Name: "hints"} })))
					armed.Store(true)
					for range 3 {
						time.Sleep(time.Second + time.Millisecond)
						shown := make(chan View, 1)
						go func() { shown <- page.view(nil) }()
						synctest.Wait()
						require.Len(t, shown, 1, "the page is there")
						assert.Len(t, (<-shown).Purgatories, 2)
					}
					assert.Positive(t, calls.Load())
					samples := 4 // the first of them when the page was made
					if name == "closes the page" {
						samples = 0
					}
					for _, shown := range page.view(nil).Purgatories {
						if shown.Name == "fetches" {
							assert.GreaterOrEqual(t, len(shown.History), samples)
						}
					}
				})
			})
		}
	}
}

// asked is a purgatory that does something else first when it is asked.
type asked struct {
	*purgatory.Purgatory[string]
	at func(place string)
}

func (a *asked) Name() string           { a.at("Name"); return a.Purgatory.Name() }
func (a *asked) Stats() purgatory.Stats { a.at("Stats"); return a.Purgatory.Stats() }
func (a *asked) Inspect(n int) purgatory.Inspection {
	a.at("Inspect")
	return a.Purgatory.Inspect(n)
}

type signalsOf func() signals.Stats

func (s signalsOf) Stats() signals.Stats { return s() }

// TestHostileNames: whatever a purgatory is called, its section has an anchor of its own, and ?name= finds it.
func TestHostileNames(t *testing.T) {
	all := []string{"a", "a.2", "a", "a", "a.2", "-", `"'\n` + "\r\n\t", "user\u202egpj", "\xff\xfe", "a b", "a+b", "a&name=c", "#", "{{view}}", evil}
	page := pageWith(Options{})
	t.Cleanup(page.Close)
	for _, name := range all {
		require.NoError(t, page.Add(named(t, name)))
	}
	all = append(all, "")
	require.NoError(t, page.Add(nameless{named(t, "a purgatory has a name, a source may have none")}))
	v := page.view(nil)
	require.Len(t, v.Purgatories, len(all))
	var ids []string
	for _, p := range v.Purgatories {
		ids = append(ids, p.ID)
		asked := strings.ToValidUTF8(p.Name, "\uFFFD") // as JSON and an address have it
		shown := page.view([]string{asked}).Purgatories
		assert.True(t, slices.ContainsFunc(shown, func(q PurgatoryView) bool { return q.ID == p.ID }), "%q has another address beside others", p.Name)
		assert.Regexp(t, `^p-[-._0-9A-Za-z]*$`, p.ID)
	}
	slices.Sort(ids)
	assert.Len(t, slices.Compact(ids), len(all), "%q", ids)
	text := get(t, page, "/").Body.String()
	for _, line := range strings.Split(text, "\n") {
		assert.NotRegexp(t, "[\x00-\x08\x0b-\x1f\u202e\u2028]", line)
	}
	assert.Equal(t, len(all), strings.Count(text, `", 0 pending`+"\n"), "a name is on one line, in the overview")
	assert.Equal(t, len(all), strings.Count(text, `"`+"\n"), "and above its section")
}

// TestManyPurgatories are all shown, also while others come and go.
func TestManyPurgatories(t *testing.T) {
	page := pageWith(Options{})
	t.Cleanup(page.Close)
	for i := range 200 {
		require.NoError(t, page.Add(named(t, fmt.Sprint("tenant ", i))))
	}
	guest := named(t, "guest")
	var going sync.WaitGroup
	for range 2 {
		going.Go(func() {
			for range 20 {
				require.NoError(t, page.Add(guest))
				page.Remove(guest)
			}
		})
	}
	for range 5 {
		var v View
		require.NoError(t, json.Unmarshal(get(t, page, "/?format=json").Body.Bytes(), &v))
		assert.GreaterOrEqual(t, len(v.Purgatories), 200)
	}
	going.Wait()
	assert.Len(t, page.view(nil).Purgatories, 200)
}

type nameless struct{ fetches }

func (nameless) Name() string { return "" }

// list is a source of a type that cannot be compared.
type list []purgatory.Stats

func (list) Name() string                     { return "list" }
func (l list) Stats() purgatory.Stats         { return l[0] }
func (list) Inspect(int) purgatory.Inspection { return purgatory.Inspection{} }

func TestRemoveOfASourceThatCannotBeComparedDoesNothing(t *testing.T) {
	page := pageWith(Options{}, list{{}})
	defer page.Close()
	page.Remove(list{{}})
	page.Remove(nil)
	assert.Equal(t, []string{"list"}, names(page.view(nil)))
}
