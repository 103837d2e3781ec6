package prometheus

import (
	"fmt"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
