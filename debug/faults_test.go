package debug

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/proof/faults"
	"github.com/delayedop/purgatory/purgatory"
)

// watch runs a server in a bubble, and calls look with what the page's JSON says of it, again and again, until look returns false. It
// returns the log.
func watch(t *testing.T, s *faults.Server, every time.Duration, look func(since time.Duration, state string, notes []Note) bool) string {
	t.Helper()
	var log bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		running, err := s.Run(purgatory.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		require.NoError(t, err)
		defer running.Stop()
		page := pageOf(running.Purgatory)
		defer page.Close()
		if running.Watermark != nil {
			require.NoError(t, page.AddWatermark(s.Name, running.Watermark))
		}
		if running.Line != nil {
			require.NoError(t, page.AddQueue(s.Name, running.Line))
		}
		start := time.Now()
		for more := true; more; {
			time.Sleep(every)
			var v View
			require.NoError(t, json.Unmarshal(get(t, page, "/?format=json").Body.Bytes(), &v))
			notes := v.Notes
			for i := range v.Purgatories {
				notes = append(notes, v.Purgatories[i].Notes...)
			}
			for i := range v.Watermarks {
				notes = append(notes, v.Watermarks[i].Notes...)
			}
			for i := range v.Queues {
				notes = append(notes, v.Queues[i].Notes...)
			}
			slices.SortStableFunc(notes, func(a, b Note) int { return urgency(a.Level) - urgency(b.Level) })
			more = look(time.Since(start), state(notes), notes)
		}
	})
	return log.String()
}

// TestAFaultSpeaks: each is in a small server with default options, and named by page and log, soon, and still when its alert fires.
func TestAFaultSpeaks(t *testing.T) {
	for i := range faults.Sick {
		s := &faults.Sick[i]
		t.Run(s.Name, func(t *testing.T) {
			soon, fires := false, 2*time.Minute
			if slices.Contains(s.Alerts, "PurgatoryPilesUp") { // which wants ten minutes of data
				fires = 13 * time.Minute
			}
			log := watch(t, s, 12*time.Second, func(since time.Duration, state string, notes []Note) bool {
				if last := since >= fires; last || !soon && since >= s.After {
					soon = true
					assert.Equal(t, s.Page, state, since)
					if assert.NotEmpty(t, notes) {
						assert.Regexp(t, s.Note, notes[0].Text)
					}
					assert.Regexp(t, s.Also, fmt.Sprint(notes))
					return !last
				}
				return true
			})
			if s.Log != "" {
				assert.Regexp(t, s.Log+".*"+s.Says, log)
			}
		})
	}
}

// TestAHealthyServerIsLeftAlone for ten minutes.
func TestAHealthyServerIsLeftAlone(t *testing.T) {
	for i := range faults.Well {
		s := &faults.Well[i]
		t.Run(s.Name, func(t *testing.T) {
			log := watch(t, s, 7*time.Second, func(since time.Duration, _ string, notes []Note) bool {
				return assert.Empty(t, notes, since) && since < 10*time.Minute
			})
			assert.NotContains(t, log, "level=WARN")
			assert.NotContains(t, log, "level=ERROR")
			assert.Contains(t, log, purgatory.EventClosed)
		})
	}
}
