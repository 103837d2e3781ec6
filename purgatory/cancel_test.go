package purgatory_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// Each of 300 fetches is submitted again when it is cancelled, before the fetch that waits for a later position. What
// was submitted after the call is not cancelled by it, and does not keep it going.
func TestACancellationEndsWhatWaitedWhenItWasCalled(t *testing.T) {
	for name, cancel := range map[string]func(p *stringPurgatory) int{
		"CancelForKey": func(p *stringPurgatory) int { return p.CancelForKey("k", nil) },
		"CancelMatching": func(p *stringPurgatory) int {
			return len(p.CancelMatching("k", nil, func(operation.Operation) bool { return true }))
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := open[string](t)
			submitted := 0
			over := false
			var submitAt func(position int64)
			submitAt = func(position int64) {
				if submitted++; over || submitted > 10_000 { // so that the test ends
					return
				}
				_, err := p.TryCompleteElseWatchAt(&op{complete: func() { submitAt(position) }}, time.Hour,
					purgatory.KeyPosition[string]{Key: "k", Position: position})
				require.NoError(t, err)
			}
			for range 300 {
				submitAt(5)
			}
			submitAt(10)
			assert.Equal(t, 301, cancel(p))
			assert.Equal(t, 301, p.NumDelayed())
			assert.Equal(t, 602, submitted)
			over = true
		})
	}
}
