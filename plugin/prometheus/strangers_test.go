package prometheus

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/signals"
)

// broken is a source whose Stats panics.
type broken struct{}

func (*broken) Name() string           { return "broken" }
func (*broken) Stats() purgatory.Stats { panic("no numbers") }

// brokenHints is a source of hints whose Stats panics once it has been added.
type brokenHints struct{ added bool }

func (b *brokenHints) Stats() signals.Stats {
	if b.added {
		panic("no hints")
	}
	return signals.Stats{Name: "broken"}
}

// A panic on a goroutine of the registry would end the program.
func TestASourceThatPanicsFailsTheScrapeAndNothingElse(t *testing.T) {
	hints := &brokenHints{}
	c, err := New(newPurgatory[string](t, "well"), &broken{})
	require.NoError(t, err)
	require.NoError(t, c.AddSignals(hints))
	require.NoError(t, c.AddSignals(said{Name: "nats"}))
	hints.added = true
	r := prometheus.NewPedanticRegistry()
	require.NoError(t, r.Register(c))
	for range 20 { // the sources are collected in any order
		families, err := r.Gather()
		require.ErrorContains(t, err, `Stats of "broken" panicked: no numbers`)
		require.ErrorContains(t, err, `Stats of "broken" panicked: no hints`)
		require.Len(t, families, len(metrics)+2+len(signalMetrics), "those of the others")
	}
	c.Remove("broken")
	c.RemoveSignals("broken")
	_, err = r.Gather()
	require.NoError(t, err)
}

// curious is a source whose Stats look whether the collector's lock is free.
type curious struct {
	c    *Collector
	free bool
}

func (*curious) Name() string { return "curious" }

func (s *curious) Stats() purgatory.Stats {
	if s.free = s.c.mu.TryLock(); s.free {
		s.c.mu.Unlock()
	}
	return purgatory.Stats{}
}

// Stats of a source may take a lock under which the program calls Add or Remove.
func TestNoLockIsHeldWhileASourceIsAsked(t *testing.T) {
	c, err := New()
	require.NoError(t, err)
	s := &curious{c: c}
	require.NoError(t, c.Add(s))
	scrape(t, c)
	assert.True(t, s.free)
}

func TestNilPointersAreNoSources(t *testing.T) {
	var p *purgatory.Purgatory[string]
	var r *signals.Runner[string]
	_, err := New(p)
	require.ErrorIs(t, err, ErrNilSource)
	c, err := New()
	require.NoError(t, err)
	require.ErrorIs(t, c.AddSignals(r), ErrNilSource)
}

// A label that is not valid UTF-8 would make the library panic while it collects.
func TestHostileNamesAreLabels(t *testing.T) {
	all := []string{`"'\n{}` + "\r\n\t", "user\u202egpj", "\xff", "{{view}}", `purgatory="x"} 7`}
	c, err := New()
	require.NoError(t, err)
	for _, name := range all {
		require.NoError(t, c.Add(newPurgatory[string](t, name)))
		require.NoError(t, c.AddSignals(said{Name: name}))
	}
	require.ErrorIs(t, c.Add(newPurgatory[string](t, "\uFFFD")), ErrName, "it looks like another one")
	scrape(t, c)
	assert.Equal(t, len(all), testutil.CollectAndCount(c, "purgatory_keys"))
	assert.Equal(t, len(all), testutil.CollectAndCount(c, "purgatory_hints_total"))
	for _, name := range all {
		c.Remove(name)
		c.RemoveSignals(name)
	}
	assert.Zero(t, testutil.CollectAndCount(c))
}

func TestPurgatoriesComeAndGoDuringAScrape(t *testing.T) {
	c, err := New()
	require.NoError(t, err)
	for i := range 200 {
		require.NoError(t, c.Add(newPurgatory[string](t, fmt.Sprint("tenant ", i))))
	}
	guest := newPurgatory[string](t, "guest")
	var going sync.WaitGroup
	going.Go(func() {
		for range 100 {
			assert.NoError(t, c.Add(guest))
			c.Remove("guest")
		}
	})
	for range 3 {
		assert.GreaterOrEqual(t, testutil.CollectAndCount(c, "purgatory_keys"), 200)
	}
	going.Wait()
	assert.Equal(t, 200, testutil.CollectAndCount(c, "purgatory_keys"))
}

// asked is a purgatory, or a source of hints, whose Stats does something else first.
type asked struct {
	*purgatory.Purgatory[string]
	first func()
}

func (a *asked) Stats() purgatory.Stats { a.first(); return a.Purgatory.Stats() }

type askedHints struct {
	name  string
	first func()
}

func (a *askedHints) Stats() signals.Stats { a.first(); return signals.Stats{Name: a.name} }

// Stats of a source may stop what it measures, the source itself, or its goroutine. The scrape ends, and it and the next one
// have what the others measure.
func TestASourceMayStopWhatItMeasures(t *testing.T) {
	type scene struct {
		c       *Collector
		p       *purgatory.Purgatory[string]
		waiting *produce
	}
	for name, call := range map[string]struct {
		do    func(s *scene)
		fails bool
		gone  bool // the source is removed
		ended bool // what waits has ended
	}{
		"closes it":            {do: func(s *scene) { _ = s.p.Close() }, ended: true},
		"shuts it down":        {do: func(s *scene) { ctx, end := context.WithCancel(context.Background()); end(); _ = s.p.Shutdown(ctx) }, ended: true},
		"ends what waits":      {do: func(s *scene) { s.p.CancelForKey("a", nil) }, ended: true},
		"inspects it":          {do: func(s *scene) { _ = s.p.Inspect(10) }},
		"removes itself":       {do: func(s *scene) { s.c.Remove("asked"); s.c.RemoveSignals("asked") }, gone: true},
		"closes and removes":   {do: func(s *scene) { s.c.Remove("asked"); s.c.RemoveSignals("asked"); _ = s.p.Close() }, gone: true, ended: true},
		"adds another":         {do: func(s *scene) { _ = s.c.AddSignals(said{Name: "nats"}) }},
		"panics":               {do: func(*scene) { panic("of the test") }, fails: true},
		"panics with nil":      {do: func(*scene) { panic(nil) }, fails: true},
		"ends its goroutine":   {do: func(*scene) { runtime.Goexit() }, fails: true},
		"closes, and ends its": {do: func(s *scene) { _ = s.p.Close(); runtime.Goexit() }, fails: true, ended: true},
	} {
		for _, hints := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, hints %v", name, hints), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c, err := New(newPurgatory[string](t, "well"))
					require.NoError(t, err)
					s := &scene{c, newPurgatory[string](t, "asked"), &produce{}}
					_, err = s.p.TryCompleteElseWatch(s.waiting, time.Hour, "a")
					require.NoError(t, err)
					calls := 0
					first := func() {
						if calls++; calls == 1 {
							call.do(s)
						}
					}
					if hints {
						calls = -1 // AddSignals asks for the name
						require.NoError(t, c.AddSignals(&askedHints{"asked", first}))
						calls = 0
					} else {
						require.NoError(t, c.Add(&asked{s.p, first}))
					}
					r := prometheus.NewRegistry()
					require.NoError(t, r.Register(c))
					for round := range 2 {
						failed := make(chan error, 1)
						go func() {
							_, err := r.Gather()
							failed <- err
						}()
						select {
						case err := <-failed:
							assert.Equal(t, call.fails && round == 0, err != nil, "%v", err)
						case <-time.After(time.Hour): // of the bubble
							require.Fail(t, "the scrape waits for ever")
						}
						synctest.Wait()
						assert.Equal(t, call.ended, s.waiting.Outcome() != operation.Pending)
					}
					text := scrape(t, c)
					assert.Contains(t, text, `purgatory_keys{purgatory="well"}`)
					assert.Equal(t, !call.gone, strings.Contains(text, `="asked"`))
				})
			})
		}
	}
}
