package debug

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/purgatory"
)

// What the page says once, and not once for each purgatory.

// TestAStalledProcessIsOneNote: the reaper of each purgatory notices, and the timeouts of each were late.
func TestAStalledProcessIsOneNote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		page := pageOf()
		defer page.Close()
		late := newFetches(t, purgatory.WithHistograms()).Stats().Late
		late.Counts[purgatory.HistogramBuckets-1] = 500
		stalls := int64(0)
		for i := range 7 {
			require.NoError(t, page.Add(&stranger{name: fmt.Sprint("p", i), stats: func() purgatory.Stats {
				n := purgatory.Stats{Timed: true, CallbacksTimed: true, ReaperStalls: stalls}
				if i < 6 && stalls > 0 {
					n.Late = late
				} else {
					n.ReaperStalls = 0
				}
				return n
			}}))
		}
		page.view(nil)
		get(t, page, "/")
		time.Sleep(time.Minute)
		assert.Empty(t, page.view(nil).Notes)
		stalls = 2
		v := page.view(nil)
		require.Len(t, v.Notes, 1)
		assert.Equal(t, Note{stateLook, "the process stalled 2 times in the last 60 s, and timeouts were late: the reapers of p0, p1, p2, p3, p4 and 1 more ran late. Does it get the CPU?"}, v.Notes[0])
		for _, p := range v.Purgatories {
			assert.Empty(t, p.Notes, p.Name)
		}
		assert.Contains(t, get(t, page, "/").Body.String(), "\nLOOK: the process stalled 2 times")
	})
}

// TestThePageSaysOnceWhatWouldShowMore at its foot.
func TestThePageSaysOnceWhatWouldShowMore(t *testing.T) {
	used := func(name string, opts ...purgatory.Option) fetches {
		p := named(t, name, opts...)
		submit(t, p, time.Hour, "", "a")
		return p
	}
	all := used("all", purgatory.WithDiagnostics())
	none := used("none")
	for want, page := range map[string]*Page{
		"": pageOf(all),
		"Not known of none: ages, waits and lateness (WithHistograms); which keys are busy, and which end only by timeout (WithKeyStats); how long callbacks run (WithSlowCallback). WithDiagnostics turns all of them on.":                   pageOf(all, none),
		"Not known of none, histograms, keys: ages, waits and lateness (WithHistograms); which keys are busy, and which end only by timeout (WithKeyStats); how long callbacks run (WithSlowCallback). WithDiagnostics turns all of them on.": pageOf(none, all, used("histograms", purgatory.WithHistograms()), used("keys", purgatory.WithKeyStats(64))),
		"Not known here: how long callbacks run (WithSlowCallback). WithDiagnostics turns all of them on.":                                                                                                                                    pageOf(named(t, "new", purgatory.WithHistograms())),
		"Not known here: ages, waits and lateness (WithHistograms); how long callbacks run (WithSlowCallback). WithDiagnostics turns all of them on.":                                                                                         pageWith(Options{HideDetails: true}, none),
	} {
		assert.Equal(t, want, page.view(nil).More)
		text := get(t, page, "/").Body.String()
		if want != "" {
			assert.Contains(t, text, "\n"+want+"\n")
		} else {
			assert.NotContains(t, text, "WithDiagnostics")
		}
	}
	assert.Empty(t, pageOf().view(nil).More, "there is no purgatory")
}

// TestTheTimerDoesNotKnowWhatHasNoTimeout: the page shows it as such.
func TestTheTimerDoesNotKnowWhatHasNoTimeout(t *testing.T) {
	p := newFetches(t)
	for range 3 {
		submit(t, p, purgatory.NoTimeout, "", "jobs")
	}
	p.AdvanceClock(10 * time.Second) // they are young at first
	page := pageOf(p)
	v := page.view(nil).Purgatories[0]
	assert.Zero(t, v.Timer.Pending)
	require.Len(t, v.Oldest, 3)
	assert.True(t, v.Oldest[0].NoTimeout)
	text := get(t, page, "/").Body.String()
	assert.Regexp(t, `  10s +no timeout +"jobs"`, text)

	submit(t, p, time.Minute, "", "jobs")
	p.AdvanceClock(10 * time.Second)
	v = page.view(nil).Purgatories[0]
	assert.Equal(t, 1, v.Timer.Pending)
	assert.False(t, v.Oldest[3].NoTimeout)
	assert.InDelta(t, 50, v.Oldest[3].Left, 0.1)
}
