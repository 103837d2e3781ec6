package debug

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/proof/faults"
)

// watch runs a server in a bubble, and calls look with what the page's JSON says of it, again and again, until look returns false.
func watch(t *testing.T, s *faults.Server, every time.Duration, look func(since time.Duration, p *PurgatoryView, v *View) bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p, stop, err := s.Run()
		require.NoError(t, err)
		defer stop()
		page := pageOf(p)
		defer page.Close()
		start := time.Now()
		for more := true; more; {
			time.Sleep(every)
			var v View
			require.NoError(t, json.Unmarshal(get(t, page, "/?format=json").Body.Bytes(), &v))
			require.Len(t, v.Purgatories, 1)
			more = look(time.Since(start), &v.Purgatories[0], &v)
		}
	})
}

// TestAFaultSpeaks: each is in a small server with default options.
func TestAFaultSpeaks(t *testing.T) {
	for i := range faults.Sick {
		s := &faults.Sick[i]
		t.Run(s.Name, func(t *testing.T) {
			watch(t, s, time.Second, func(since time.Duration, p *PurgatoryView, v *View) bool {
				if since < s.After {
					return true
				}
				assert.Equal(t, s.Page, p.State)
				if assert.NotEmpty(t, p.Notes) {
					assert.Regexp(t, s.Note, p.Notes[0].Text)
				}
				assert.Empty(t, v.Notes, "the process is well")
				return false
			})
		})
	}
}

// TestAHealthyServerIsLeftAlone for an hour.
func TestAHealthyServerIsLeftAlone(t *testing.T) {
	for i := range faults.Well {
		s := &faults.Well[i]
		t.Run(s.Name, func(t *testing.T) {
			watch(t, s, 17*time.Second, func(since time.Duration, p *PurgatoryView, v *View) bool {
				ok := assert.Empty(t, p.Notes, since) && assert.Empty(t, v.Notes)
				return ok && since < time.Hour
			})
		})
	}
}
